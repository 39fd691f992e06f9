"""Stack of the Keras methods that the script or its callbacks are in."""

from __future__ import annotations

import contextlib
import inspect
import threading
from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import Any

__all__ = ["CallKind", "CallStack", "arguments_of"]


class CallKind(Enum):
    """Kind of a call of which Keras makes further ones inside."""

    FIT = auto()
    EVALUATE = auto()
    PREDICT = auto()
    TRAIN_ON_BATCH = auto()
    STEP = auto()
    """A shared step of a custom loop."""
    PLAIN = auto()
    """A callback's call of a model, made as in one process; other ranks may not make it."""
    ALONE = auto()
    """A callback that only the leader calls."""


class CallStack:
    """Running calls, each inside the one before. Local.

    Threads that the script starts see the calls of the thread that ranks wait in, and have a stack
    of their own for those that they make beside it.
    """

    def __init__(self) -> None:
        self._shared: list[CallKind] = []
        self._owner = threading.main_thread()  # of the shared calls, while there are any
        self._own = threading.local()

    @property
    def is_empty(self) -> bool:
        """Whether the script itself is running."""
        return not self._kinds

    @property
    def is_beside(self) -> bool:
        """Whether this thread runs beside the one that makes shared calls, or may make some.

        When it runs is no rank's to say, so that no other may wait for its calls.
        """
        me = threading.current_thread()
        return me is not (self._owner if self._shared else threading.main_thread())

    @property
    def only(self) -> CallKind | None:
        """The running call if it is the only one; else None."""
        return self._kinds[0] if len(self._kinds) == 1 else None

    @property
    def is_alone(self) -> bool:
        """Whether this rank alone makes the current calls, in a callback on the leader."""
        return CallKind.ALONE in self._kinds

    @property
    def is_innermost_alone(self) -> bool:
        """Whether such a callback runs itself, outside of Keras methods that it calls."""
        return self._kinds[-1:] == [CallKind.ALONE]

    @contextlib.contextmanager
    def within(self, kind: CallKind) -> Iterator[None]:
        """Surround a call of this kind, which ranks make in one order."""
        if not self._shared:
            self._owner = threading.current_thread()
        self._shared.append(kind)
        try:
            yield
        finally:
            self._shared.pop()

    @contextlib.contextmanager
    def beside(self) -> Iterator[None]:
        """Surround a call that a thread makes as in one process, beside the shared ones."""
        kinds = self._own.__dict__.setdefault("kinds", [])
        kinds.append(CallKind.PLAIN)
        try:
            yield
        finally:
            kinds.pop()

    @property
    def _kinds(self) -> list[CallKind]:
        return self._own.__dict__.get("kinds") or self._shared


def arguments_of(
    original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any
) -> dict[str, Any]:
    """All arguments of a call of Keras's method *original* on *model*, by name; pure."""
    bound = inspect.signature(original).bind(model, *args, **kwargs)
    bound.apply_defaults()
    given = dict(bound.arguments)
    given.pop("self")
    return given
