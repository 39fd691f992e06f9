"""Transfer of a snapshot between ranks of a running fit, as the content of a checkpoint file."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

import checkpoints
import ft

__all__ = ["receive_snapshot", "send_snapshot"]


def send_snapshot(
    communicator: ft.Communicator, snapshot: checkpoints.Snapshot, to: Collection[int]
) -> None:
    """Send *snapshot* to the ranks *to*; collective with :func:`receive_snapshot` on those.

    All other ranks hold the same state, so any of them can take the place of one that dies.
    """
    sources = [rank for rank in communicator.world.ranks if rank not in to]
    content = checkpoints.to_bytes(snapshot)
    size = np.array([content.size], np.int64)
    communicator.broadcast(size, sources=sources)
    if content.size != size[0]:  # it differs: receive the other, so that no rank hangs
        content = np.zeros(int(size[0]), np.uint8)
    communicator.broadcast(content, sources=sources)


def receive_snapshot(communicator: ft.Communicator, sources: Sequence[int]) -> checkpoints.Snapshot:
    """Receive a snapshot from one of the *sources*; collective with :func:`send_snapshot`.

    The process ends if what comes is no snapshot.
    """
    size = np.zeros(1, np.int64)
    communicator.broadcast(size, sources=sources)
    content = np.zeros(int(size[0]), np.uint8)
    communicator.broadcast(content, sources=sources)
    try:
        return checkpoints.from_bytes(content)
    except checkpoints.CheckpointError as error:
        ft.fail_stop(f"a spare wants the state of the others. Received: {error}")
