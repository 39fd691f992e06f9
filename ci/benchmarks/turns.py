"""Programs that take turns on one machine, so that what disturbs one disturbs all alike.

Each does its part once for every file ``<who>-<round>.go`` that appears in a folder, and leaves
the figure it measured in ``<who>-<round>.done``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from ci import jobs

LIMIT_S = 300

# File that says that all have had their last turn.
_OVER = "over"

# What gives a program one thread for TensorFlow, too.
ONE_THREAD = {
    **jobs.ONE_THREAD,
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "2",
}


def run_on_first_core(*words: str) -> None:
    """Run a module of this repository, with its arguments, on the first core with one thread.

    Raises:
        SystemExit: it failed.
    """
    command = [sys.executable, "-m", *words]
    started = subprocess.Popen(command, env=jobs.environment(**ONE_THREAD))
    os.sched_setaffinity(started.pid, sorted(os.sched_getaffinity(0))[:1])
    if started.wait():
        raise SystemExit(f"{' '.join(command)} ended with {started.returncode}")


def wait_for_turns(folder: Path, who: str, rounds: int, part: Callable[[], float]) -> None:
    """Do *part* in each round of a program that takes turns; of several ranks rank 0 reports.

    A plain program gets the pipelines of a run, which are not autotuned.
    """
    rank = os.environ.get("OMPI_COMM_WORLD_RANK")
    if rank is None:
        from matex.keras_hooks.data import leave_autotuning

        # Plain Keras would wait at the end of each epoch, which is no measure of its computing.
        leave_autotuning()
    leads = rank in (None, "0")
    for number in range(rounds):
        await_file(folder / f"{who}-{number}.go")
        figure = part()
        if leads:
            aside = folder / f"{who}-{number}.aside"
            aside.write_text(str(figure))
            aside.rename(folder / f"{who}-{number}.done")
    # The end of a program that has loaded TensorFlow takes a second, and would disturb others.
    await_file(folder / _OVER)


def take_turns(
    commands: Mapping[str, tuple[Sequence[str], Mapping[str, str]]],
    *,
    rounds: int,
    folder: Path,
    on_one_core: Sequence[str] = (),
    beside: Callable[[int], AbstractContextManager[object]] = nullcontext,
) -> dict[str, list[float]]:
    """Start all commands and let them take turns; the figures of each, a round each.

    Args:
        commands: words and environment of each command, by name.
        on_one_core: names of those that are kept on one core; none by default.
        beside: context of the turns of a round, by its number; none by default.
    """
    figures: dict[str, list[float]] = {who: [] for who in commands}
    running = {
        who: subprocess.Popen(list(command), env=environment, stdout=subprocess.DEVNULL)
        for who, (command, environment) in commands.items()
    }
    for who in on_one_core:
        os.sched_setaffinity(running[who].pid, sorted(os.sched_getaffinity(0))[:1])
    try:
        for number in range(rounds):
            with beside(number):
                for who, measured in figures.items():
                    (folder / f"{who}-{number}.go").touch()
                    await_file(folder / f"{who}-{number}.done")
                    measured.append(float((folder / f"{who}-{number}.done").read_text()))
    finally:
        (folder / _OVER).touch()
        for process in running.values():
            process.terminate()
            process.wait()
    return figures


def await_file(path: Path) -> None:
    limit = time.monotonic() + LIMIT_S
    while not path.exists():
        if time.monotonic() > limit:
            raise SystemExit(f"{path.name} did not come within {LIMIT_S} s")
        time.sleep(0.002)
