"""Looking at what fit is given, without matex's runtime or with it."""

from __future__ import annotations

from typing import Any

from keras.src.backend.tensorflow import trainer as trainer_module

__all__ = ["feeds", "forget_feeds", "watch_feeds"]

_seen: dict[str, dict[str, Any]] = {}


def watch_feeds() -> None:
    """Remember the data of the newest fit and of its validation from now on. Local."""
    original = trainer_module.TFEpochIterator
    if hasattr(original, "_matex_watched"):
        return

    def watched(*args: Any, **kwargs: Any) -> Any:
        _seen["training" if "class_weight" in kwargs else "validation"] = kwargs
        return original(*args, **kwargs)

    watched._matex_watched = original  # type: ignore[attr-defined]
    if hasattr(original, "_matex"):
        watched._matex = True  # type: ignore[attr-defined]
    trainer_module.TFEpochIterator = watched


def feeds() -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """The arguments (x, y, sample_weight, ...) of the running fit's data and validation."""
    return _seen.get("training"), _seen.get("validation")


def forget_feeds() -> None:
    """Let go of the data."""
    _seen.clear()
