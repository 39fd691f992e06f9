"""Copies of many arrays, in memory that is used again: fresh pages cost more than the copying."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Mapping

import numpy as np

__all__ = ["BufferPool"]

_ALIGN = 64
# Between two snapshots no more than this is kept from the training, which may need it.
_KEPT_BYTES = 256 << 20


class BufferPool:
    """Memory for successive copies of a state. Local, for any thread.

    Memory comes back when its owner is garbage collected, in whichever thread that happens, so
    arrays must not be kept longer than their owner.
    """

    def __init__(self) -> None:
        self._free: list[np.ndarray] = []

    def copy(self, arrays: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Copies of *arrays*, and the one array in whose memory they are."""
        sizes = [-(-array.nbytes // _ALIGN) * _ALIGN for array in arrays.values()]
        memory = self._memory(sum(sizes))
        copies: dict[str, np.ndarray] = {}
        start = 0
        for (name, array), size in zip(arrays.items(), sizes, strict=True):
            place = memory[start : start + array.nbytes]
            copy = place.view(array.dtype).reshape(array.shape)
            np.copyto(copy, array)
            copies[name] = copy
            start += size
        return copies, memory

    def recycle_after(self, owner: object, memory: np.ndarray) -> None:
        """Let *memory* be used again when *owner* is garbage collected."""
        if memory.nbytes <= _KEPT_BYTES:
            weakref.finalize(owner, self._free.append, memory).atexit = False

    def _memory(self, nbytes: int) -> np.ndarray:
        with contextlib.suppress(IndexError):  # of an empty list
            while True:
                memory = self._free.pop()
                if memory.nbytes == nbytes:
                    return memory
        return np.empty(nbytes, np.uint8)
