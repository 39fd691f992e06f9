"""All ranks leave together before the end, with a checkpoint where one can be made."""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from matex.leaving import Leaving, described
from matex.run import Run
from matex.saving import Take
from matex.summary import Stopped

__all__ = ["leave", "stop"]


def leave(run: Run, take: Take | None) -> NoReturn:
    """Save and leave; collective, after a step with which it was agreed.

    Args:
        take: makes the snapshot of the step; None where none can be made.

    Raises:
        Leaving: on every rank.
    """
    problem = None
    if run.saver.files is None:
        problem = "--checkpoint DIR was not given, so there is nothing to continue from"
    elif take is None:
        problem = "no checkpoint can be made of this training"
    elif not run.save_for_all(take):
        problem = "the checkpoint could not be written"
    stop(run, problem)
    raise Leaving(resumable=problem is None)


def stop(run: Run, problem: str | None) -> None:
    """The run ends here, before its end; collective.

    Args:
        problem: why it cannot be continued from here.
    """
    codes = run.communicator.allgather(np.array([run.notice.code], np.int64)).rows
    told = [described(int(code)) for code in codes[:, 0] if code] or ["a rank that died"]
    # What came to matex run reaches the ranks as another signal.
    told = [e["signal"] for e in run.events.all() if e["event"] == "told"] or told
    why = f"; {problem}" if problem else ""
    run.stopped = Stopped(
        reason=f"told to leave after step {run.step} ({told[0]}){why}", resumable=not problem
    )
    run.say(run.stopped.reason)
