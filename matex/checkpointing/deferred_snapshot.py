"""The state between two steps, held while training goes on."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

import checkpoints
from matex import keras_hooks
from matex.checkpointing.buffer_pool import BufferPool

__all__ = ["DeferredSnapshot"]


class DeferredSnapshot:
    """Values of variables at one time, of which a snapshot is made later; local.

    It holds references, which takes less time than copies would. TensorFlow gives a variable new
    memory before it changes one that is referred to, so training may go on immediately. To spare
    it that, the copies should be made soon; then the references are dropped.

    Args:
        parts: variables of "weights", "optimizer" and "metrics".
        cursor, architecture, extra: fields of :class:`checkpoints.Snapshot`.
        pool: buffer pool that provides memory for the copies, until the snapshot is garbage
            collected; by default a new one.
    """

    def __init__(
        self,
        parts: Mapping[str, Iterable[Any]],
        cursor: dict[str, int],
        *,
        architecture: str,
        extra: dict[str, np.ndarray],
        pool: BufferPool | None = None,
    ) -> None:
        self._tensors: dict[str, Any] = {}
        for part, variables in parts.items():
            for variable in variables:
                name = self._name(f"{part}/{variable.path}")
                self._tensors[name] = keras_hooks.referred_value(variable)
        self._cursor = cursor
        self._architecture = architecture
        self._extra = extra
        self._pool = pool or BufferPool()
        self._copying = threading.Lock()
        self._copied: checkpoints.Snapshot | None = None

    def _name(self, path: str) -> str:
        name, again = path, 1
        while name in self._tensors:
            again += 1
            name = f"{path}~{again}"
        return name

    def snapshot(self) -> checkpoints.Snapshot:
        """Snapshot of the live memory, or of the copies if there are any; in any thread."""
        with self._copying:
            return self._copied or self._of(self._seen())

    def copied(self) -> checkpoints.Snapshot:
        """Snapshot of copies, equal for all callers; in any thread."""
        with self._copying:
            if self._copied is None:
                arrays, memory = self._pool.copy(self._seen())
                self._tensors.clear()
                self._copied = self._of(arrays)
                self._pool.recycle_after(self._copied, memory)
            return self._copied

    def _seen(self) -> dict[str, np.ndarray]:
        return {name: _array(tensor) for name, tensor in self._tensors.items()}

    def _of(self, arrays: dict[str, np.ndarray]) -> checkpoints.Snapshot:
        metrics = {name: array for name, array in arrays.items() if name.startswith("metrics/")}
        return checkpoints.Snapshot(
            weights=_under("weights", arrays),
            optimizer=_under("optimizer", arrays),
            cursor=self._cursor,
            architecture=self._architecture,
            extra=metrics | self._extra,
        )


def _array(tensor: Any) -> np.ndarray:
    try:
        return np.asarray(memoryview(tensor))
    except (BufferError, TypeError, ValueError):  # of a type that Python does not know
        return np.asarray(tensor.numpy())


def _under(part: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    start = f"{part}/"
    return {name[len(start) :]: a for name, a in arrays.items() if name.startswith(start)}
