"""Exit of all ranks before the end, with a checkpoint if one can be made."""

from __future__ import annotations

import numpy as np

from matex.checkpointing.saver import MakeState
from matex.preemption.exits import PreemptedExit
from matex.preemption.stop_request import MISSING, described
from matex.records import console
from matex.records.starts import stop_signals
from matex.run.context import RunContext

__all__ = ["checkpoint_and_exit", "record_stop"]


def checkpoint_and_exit(run: RunContext, make_state: MakeState | None) -> None:
    """Save and leave; collective, between steps, after all ranks have agreed.

    It returns only if all ranks were to be started again for the sake of missing ranks, and nothing
    could be saved: then they go on without them.

    Args:
        make_state: function that holds the state after the step; None if none can be made.

    Raises:
        PreemptedExit: on every rank.
    """
    codes = _codes(run)
    if MISSING in codes and codes <= {0, MISSING}:
        _exit_to_regrow(run, make_state)
        return
    problem = None
    if run.saver.files is None:
        problem = "--checkpoint DIR was not given, so there is nothing to continue from"
    elif make_state is None:
        problem = "no checkpoint can be made of this training"
    elif not run.saver.save_for_all(make_state):
        problem = "the checkpoint could not be written"
    record_stop(run, problem)
    raise PreemptedExit(resumable=problem is None)


def _exit_to_regrow(run: RunContext, make_state: MakeState | None) -> None:
    run.stop_request.withdraw_missing()
    if make_state is None:
        run.elastic.never_regrow()
        run.terminal.say("no checkpoint can be made of this training: it goes on with fewer ranks")
    elif run.saver.save_for_all(make_state):
        size, wanted = run.communicator.world.size, run.config.grow_to
        reason = f"left after step {run.step} with {size} ranks, to go on with {wanted}"
        run.outcome.stop(reason, resumable=True)
        if run.communicator.world.is_leader:
            run.records.note("short", world_size=size, wanted=wanted)
        raise PreemptedExit(resumable=True)


def _codes(run: RunContext) -> set[int]:
    """The codes of the stop requests of all ranks; collective."""
    row = np.array([run.stop_request.code], np.int64)
    return {int(code) for code in run.communicator.allgather(row).rows[:, 0]}


def record_stop(run: RunContext, problem: str | None) -> None:
    """Record that the run ends early; collective.

    Args:
        problem: reason for which it cannot be continued from here; None if it can.
    """
    codes = _codes(run) - {0, MISSING}
    signals = [described(code) for code in sorted(codes)] or ["a rank that died"]
    # A signal to matex run reaches the ranks as another signal.
    signals = [event["signal"] for event in stop_signals(run.records.events.all())] or signals
    why = f"; {problem}" if problem else ""
    reason = f"asked to stop after step {run.step} ({signals[0]}){why}"
    run.outcome.stop(reason, resumable=not problem)
    if not run.config.start_number:
        run.terminal.say(reason)
    else:  # matex run says it: mpiexec may show nothing any more, where it was told to end too
        console.write_to_log(f"matex: {reason}\n")
