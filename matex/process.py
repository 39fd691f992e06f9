"""One rank from its start to its end: ``python -m matex [options] script.py ...``."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import ft
from matex import console
from matex.config import Config
from matex.errors import DataError, InputError, MatexError
from matex.events import EventLog

if TYPE_CHECKING:
    from matex.runtime import Runtime

__all__ = ["meet", "run_script"]

EVENTS = "events.jsonl"
_INSTALL = (
    "TensorFlow with Keras 3 was not found: install it with pip install 'matex[cpu]' "
    "or 'matex[gpu]'. Received: {error}"
)


runtime: Runtime | None = None


def meet(config: Config) -> Runtime:
    """Meet the other ranks; collective. The runtime's own ``start()`` comes next.

    From here on an error on this rank ends this rank alone.

    Raises:
        ft.Unrecoverable: no MPI.
        ft.UsageError: the faults do not fit the number of ranks.
        InputError: no TensorFlow.
    """
    communicator = ft.Communicator.start()
    world = communicator.world
    ft.check_faults(config.faults, ranks=communicator.initial_size)
    if config.report is not None:
        config.report.mkdir(parents=True, exist_ok=True)
    console.redirect(config.report, world.rank, lambda: communicator.world.is_leader)
    path = None if config.report is None else config.report / EVENTS
    events = EventLog(path, world.rank)
    ft.on_death(lambda reason: events.write("death", reason=reason))
    _share_cores(config.threads, world)
    try:
        import keras
        import tensorflow  # noqa: F401 - Keras finds it, and its absence is to be told here
    except ModuleNotFoundError as error:
        raise InputError(_INSTALL.format(error=error)) from None
    keras.utils.set_random_seed(config.seed)

    from matex.run import Run
    from matex.runtime import Runtime

    global runtime  # noqa: PLW0603 - a process takes part in one run
    runtime = Runtime(Run(config, communicator, events))
    ft.shield(runtime.finish)
    return runtime


def run_script(script: Path, arguments: list[str], config: Config) -> int:
    """Run *script* as ``python script`` would, attached; the exit status of this rank."""
    try:
        runtime = meet(config)
    except (MatexError, ft.FtError) as error:
        _print_line(str(error))
        ft.die(str(error))
    import tensorflow

    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.resolve().parent))
    with ft.shielded():
        try:
            runtime.start()
            runpy.run_path(str(script), run_name="__main__")
        except DataError as error:
            _print_line(str(error))  # of this rank alone, which the others go on without
            ft.die(str(error))
        except tensorflow.errors.OpError:
            # An average in a graph of the script's own failed: on every rank alike.
            if runtime.averaging.error is None:
                raise
            _print_line(str(runtime.averaging.error))
            runtime.finish(reason=str(runtime.averaging.error))
            return 1
        except MatexError as error:
            # Raised by all ranks alike, so all can leave together and say why once.
            _print_line(str(error))
            runtime.finish(reason=str(error))
            return 1
    runtime.finish()
    return 0


def _share_cores(threads: int, world: ft.World) -> None:
    """One host's cores are shared by its ranks; more threads than cores only get in the way.

    Ranks that fill the host exactly are each kept on cores of their own.
    """
    here = [m.rank for m in world.members if m.host == world.me.host]
    cores = sorted(os.sched_getaffinity(0))
    threads = threads or max(1, len(cores) // len(here))
    if len(here) > 1 and threads * len(here) == len(cores):
        first = here.index(world.rank) * threads
        os.sched_setaffinity(0, cores[first : first + threads])
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TF_NUM_INTRAOP_THREADS"):
        os.environ.setdefault(name, str(threads))
    os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


def _print_line(message: str) -> None:
    print(f"matex: {' '.join(message.split())}", file=sys.stderr, flush=True)
