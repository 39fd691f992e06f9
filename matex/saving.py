"""Writing a checkpoint of the run's own."""

from __future__ import annotations

import time
from typing import Any

import checkpoints
from matex import state
from matex.run import Run

__all__ = ["write_checkpoint"]


def write_checkpoint(run: Run, model: Any, cursor: dict[str, int]) -> None:
    """Save *model* between two steps; local, on the leader. A failure is told, and no more.

    Args:
        cursor: where training stands; see :func:`matex.state.snapshot`.
    """
    if run.store is None:
        return
    started = time.perf_counter()
    try:
        path = run.store.save(state.snapshot(model, cursor))
    except checkpoints.CheckpointError as error:
        run.warn(f"no checkpoint at step {run.step}, training goes on: {error}")
        run.events.write("checkpoint-failed", step=run.step, reason=str(error))
        return
    seconds = time.perf_counter() - started
    run.events.write("checkpoint", step=run.step, path=str(path), seconds=seconds)
