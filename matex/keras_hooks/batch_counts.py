"""Count of batches by which TensorBoard numbers its points, on ranks on which it does not run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

__all__ = ["BATCH_COUNT", "count_batch", "keeping_count"]

#: Attribute of TensorBoard: batches of the running fit that have begun.
BATCH_COUNT = "_global_train_batch"


def count_batch(callback: Any, call: str) -> None:
    """Update the batch count of a TensorBoard *callback* that is not called on this rank. Local.

    Args:
        callback: a callback; one that counts no batches is left as it is.
        call: name of the method that Keras calls, such as ``on_train_begin``.
    """
    if hasattr(callback, BATCH_COUNT):
        if call == "on_train_begin":
            setattr(callback, BATCH_COUNT, 0)
        elif call == "on_train_batch_begin":
            setattr(callback, BATCH_COUNT, getattr(callback, BATCH_COUNT) + 1)


@contextlib.contextmanager
def keeping_count(callback: Any) -> Iterator[None]:
    """Context in which a *callback* that begins goes on counting. Local."""
    count = getattr(callback, BATCH_COUNT, None)
    yield
    if count is not None:
        setattr(callback, BATCH_COUNT, count)
