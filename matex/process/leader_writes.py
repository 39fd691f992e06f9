"""Writes of a leader at the end of an epoch, for the next leader to repeat if it died over them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["NotedSaves", "drop_row"]


class NotedSaves:
    """A model that does not save itself, but notes how it was to be saved.

    Args:
        model: model of this rank, whose other attributes are those of this one.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._noted: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Note the call; the leader makes it."""
        self._noted.append(("save", args, kwargs))

    def save_weights(self, *args: Any, **kwargs: Any) -> None:
        """Note the call; the leader makes it."""
        self._noted.append(("save_weights", args, kwargs))

    def make(self) -> None:
        """Save the model as noted. Local."""
        for name, args, kwargs in self._noted:
            getattr(self._model, name)(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


def drop_row(path: Path, first: str) -> None:
    """Delete the last line of the file *path* if it begins with *first* or is not whole. Local.

    A file that is not there stays so.
    """
    if not path.exists():
        return
    lines = path.read_bytes().splitlines(keepends=True)
    if lines and (lines[-1].startswith(first.encode()) or not lines[-1].endswith(b"\n")):
        path.write_bytes(b"".join(lines[:-1]))
