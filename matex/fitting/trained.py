"""What a script has trained, as one hash that the ranks compare when the script has ended."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from matex import state

__all__ = ["MOST", "Trained"]

#: So many of the newest models are kept alive until the end; of older ones a hash is kept.
MOST = 8

Variables = Callable[[], list[Any]]


class Trained:
    """The trained models, loops and optimizers of one process. Local, and alike on all ranks.

    A search over hundreds of models must not hold them all in memory: when a further one is
    trained, the one whose training began first counts with the values that it has by then.
    """

    def __init__(self) -> None:
        self._kept: dict[Hashable, Variables] = {}
        self._digests: list[str] = []

    def __len__(self) -> int:
        return len(self._digests) + len(self._kept)

    def remember(self, key: Hashable, variables: Variables) -> None:
        """*variables* gives what is trained; *key* tells whether it is known already."""
        if key in self._kept:
            return
        while len(self._kept) >= MOST:
            oldest = next(iter(self._kept))
            self._digests.append(state.weights_hash(self._kept.pop(oldest)()))
        self._kept[key] = variables

    def digest(self) -> str | None:
        """64 bits over all values, as 16 hexadecimal digits; None where nothing was trained."""
        if not len(self):
            return None
        variables = (variable for some in self._kept.values() for variable in some())
        return state.weights_hash(variables, after=self._digests)
