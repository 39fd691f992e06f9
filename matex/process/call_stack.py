"""The methods of Keras that the script, or a callback of it, is in."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import Any

__all__ = ["CallKind", "CallStack", "arguments_of"]


class CallKind(Enum):
    """A call that Keras makes in a way of its own."""

    FIT = auto()
    EVALUATE = auto()
    PREDICT = auto()
    TRAIN_ON_BATCH = auto()
    STEP = auto()
    """A shared step of a loop of the script's own."""
    PLAIN = auto()
    """What a callback asks of a model, as one process would do it; other ranks may not."""
    ALONE = auto()
    """A callback that only the leader calls."""


class CallStack:
    """The calls that are being made, each inside the one before. Local."""

    def __init__(self) -> None:
        self._kinds: list[CallKind] = []

    @property
    def is_empty(self) -> bool:
        """Whether the script itself is running."""
        return not self._kinds

    @property
    def only(self) -> CallKind | None:
        """The call that is being made, where it is in no other; else None."""
        return self._kinds[0] if len(self._kinds) == 1 else None

    @property
    def is_alone(self) -> bool:
        """Whether this rank makes calls that the others do not, in a callback on the leader."""
        return CallKind.ALONE in self._kinds

    @property
    def is_innermost_alone(self) -> bool:
        """Whether such a callback itself is running, and none of Keras's methods in it."""
        return self._kinds[-1:] == [CallKind.ALONE]

    @contextlib.contextmanager
    def within(self, kind: CallKind) -> Iterator[None]:
        """Surround a call of this kind."""
        self._kinds.append(kind)
        try:
            yield
        finally:
            self._kinds.pop()


def arguments_of(
    original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any
) -> dict[str, Any]:
    """All arguments of a call of Keras's method *original* on *model*, by name; pure."""
    bound = inspect.signature(original).bind(model, *args, **kwargs)
    bound.apply_defaults()
    given = dict(bound.arguments)
    given.pop("self")
    return given
