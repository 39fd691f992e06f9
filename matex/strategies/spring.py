"""What a centre of elastic averaging pulls, and is pulled by, in turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import numpy as np

from matex.strategies.centre import Visit
from matex.strategies.mean import distance
from matex.strategies.rules.elastic import force, pull, pulled_by

__all__ = ["Spring"]


class Spring:
    """What meets a centre in turn: a worker, or the centre of a node.

    Args:
        read: where it is, of shape (n,).
        shift: moves it by so much; and how far it was from the centre, relative to that.
    """

    def __init__(
        self,
        read: Callable[[], np.ndarray],
        shift: Callable[[np.ndarray, float], None],
        beta: float,
    ) -> None:
        self._read = read
        self._shift = shift
        self._beta = beta
        self._away: deque[tuple[np.ndarray, float]] = deque()

    def bring(self, share: float) -> np.ndarray:
        worker = self._read()
        self._away.append((worker, force(share, self._beta)))
        return worker

    def take(self, state: np.ndarray) -> None:
        worker, alpha = self._away.popleft()
        self._shift(pulled_by(worker, state, alpha), distance(worker, state))

    def recall(self, unserved: np.ndarray | None) -> None:
        self._away.clear()

    def start_from(self, state: np.ndarray) -> None:
        """It stays where it is."""

    def serve(self, state: np.ndarray, visits: Sequence[Visit], groups: int) -> list[np.ndarray]:
        served = []
        for visit in visits:
            state = pull(visit.vector, state, force(visit.share, self._beta))[1]
            served.append(state)
        return served

    def stand_in(self) -> np.ndarray:
        return self._read()
