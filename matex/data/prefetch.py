"""Reading ahead of the next step's rows while the current step is computed."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np

__all__ = ["Prefetch"]

WORTH_S = 1e-3  # reading quicker than this is not worth handing to another thread


class RowReader(Protocol):
    """A source from which rows are read, such as ``Batches``."""

    @property
    def costly(self) -> bool: ...

    def rows(self, indices: np.ndarray) -> Any: ...


class Prefetch:
    """Rows of *source*, with the next ones read ahead by a thread.

    The caller says which rows it will probably ask for next. A wrong guess (a rank died, an epoch
    ended) costs the time of that read and nothing else. One thread reads at a time, so *source*
    need not be thread-safe.

    There is a thread only where *source* calls its reading costly and the last read took
    a millisecond or more: arrays in memory, and files that the system holds in memory, are
    read at once, since with a core a rank a thread would take the time it saves.
    """

    def __init__(self, source: RowReader) -> None:
        self._source = source
        self._threads: ThreadPoolExecutor | None = None
        self._ahead: tuple[np.ndarray, Future[Any]] | None = None
        self._took_s = 0.0

    def rows(self, indices: np.ndarray, *, then: Callable[[], np.ndarray]) -> Any:
        """Rows *indices*; the rows that *then* returns, if any, are read ahead.

        Raises:
            DataError: raised while *indices* were read, now or ahead.
        """
        result = self._prefetched(indices)
        if self._source.costly and self._took_s >= WORTH_S:
            self._read_ahead(then())
        return result

    def close(self) -> None:
        """End the thread after its current read. Rows can still be read."""
        self._ahead = None
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
            self._threads = None

    def _read_ahead(self, indices: np.ndarray) -> None:
        if not len(indices):
            return
        if self._threads is None:
            self._threads = ThreadPoolExecutor(1, thread_name_prefix="matex-reader")
        self._ahead = indices, self._threads.submit(self._read, indices)

    def _prefetched(self, indices: np.ndarray) -> Any:
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            expected, future = ahead
            if np.array_equal(expected, indices):
                return future.result()
            if not future.cancel():
                future.exception()  # of rows that nobody wants: only waited for
        return self._read(indices)

    def _read(self, indices: np.ndarray) -> Any:
        started = time.perf_counter()
        result = self._source.rows(indices)
        self._took_s = time.perf_counter() - started
        return result
