"""Snapshot from which a run continues: the newest valid one of any tier, on all ranks."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import numpy as np

import checkpoints
import ft
from matex.errors import InputError
from matex.records import console

__all__ = ["newest_common_snapshot", "received"]

# In place of a checkpoint's step.
_NONE, _UNUSABLE = -1, -2


def newest_common_snapshot(
    communicator: ft.Communicator,
    *,
    files: checkpoints.Store | None,
    memory: checkpoints.Store | None,
) -> checkpoints.Snapshot | None:
    """The newest valid snapshot; collective.

    The leader searches the files, which all ranks can read; every rank searches the memory of its
    own node. Snapshots that only some nodes hold are sent to the others.

    Raises:
        InputError: on every rank, if the directory of files cannot be used.
    """
    step = _NONE if files is None else _newest_file(communicator, files)
    found = None if memory is None else memory.newest_valid()
    mine = _NONE if found is None else found[1].step
    gathered = communicator.allgather(np.array([mine], np.int64))
    steps = gathered.rows[:, 0]
    newest = int(steps.max())
    if newest > step and found is not None and (steps == newest).all():
        return found[1]
    if newest > step:
        holder = gathered.ranks[int(steps.argmax())]
        path = found[0] if found is not None and mine == newest else None
        snapshot = received(communicator, holder, path)
        if snapshot is not None:
            return snapshot
    if files is None or step == _NONE:
        return None
    return files.load(files.path_of(step))


def _newest_file(communicator: ft.Communicator, store: checkpoints.Store) -> int:
    """Step of the newest valid file, as found by the leader; collective."""
    newest = np.array([_NONE], np.int64)
    reason = "the leader's log says why"
    leads = communicator.world.is_leader
    if leads:
        try:
            store.prepare()
            found = store.newest_valid(on_skip=_tell_skipped)
            newest[0] = _NONE if found is None else found[1].step
        except checkpoints.CheckpointError as error:
            newest[0], reason = _UNUSABLE, str(error)
    communicator.broadcast(newest)
    try:
        if not leads and newest[0] != _UNUSABLE:
            store.prepare()  # it is there now, and will not be made again should it vanish
    except checkpoints.CheckpointError as error:
        newest[0], reason = _UNUSABLE, str(error)
    if not communicator.agree(newest[0] != _UNUSABLE):
        raise InputError(f"the checkpoint directory cannot be used: {reason}")
    return int(newest[0])


def _tell_skipped(path: Path, error: checkpoints.CheckpointError) -> None:
    line = f"matex: {path.name} is passed over for an older checkpoint: {error}"
    print(line, file=console.own("stdout"), flush=True)


def received(
    communicator: ft.Communicator, holder: int, path: os.PathLike[str] | None
) -> checkpoints.Snapshot | None:
    """Snapshot in *path* of rank *holder*; None if it cannot be read; collective."""
    has = communicator.world.rank == holder and path is not None
    content = np.fromfile(path, np.uint8) if has and path is not None else np.empty(0, np.uint8)
    size = np.array([content.size], np.int64)
    communicator.broadcast(size, sources=[holder])
    buffer = content if has else np.zeros(int(size[0]), np.uint8)
    communicator.broadcast(buffer, sources=[holder])
    snapshot: checkpoints.Snapshot | None = None
    with contextlib.suppress(checkpoints.CheckpointError):
        snapshot = checkpoints.from_bytes(buffer)
    return snapshot if communicator.agree(snapshot is not None) else None
