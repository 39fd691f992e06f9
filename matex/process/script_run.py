"""One rank from its start to its end: ``python -m matex [options] script.py ...``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import ft
from matex.config import Config
from matex.data.reading_errors import data_error_in
from matex.errors import DataError, MatexError, StopRequested
from matex.preemption.exits import PreemptedExit, SpareReleased
from matex.process.bootstrap import start_rank
from matex.process.libraries import error_of_graphs
from matex.process.program import file_of, run_program
from matex.records import console

if TYPE_CHECKING:
    from matex.process.keras_adapter import KerasAdapter

__all__ = ["run_script"]


def run_script(script: Path, arguments: list[str], config: Config, *, module: bool = False) -> int:
    """Run *script* as ``python script`` would, attached; the exit status of this rank.

    Args:
        script: path of the script, or the name of a module.
        arguments: arguments of the script.
        config: configuration of the run.
        module: whether *script* is the name of a module, as after ``python -m``.
    """
    try:
        adapter = start_rank(config, interrupts=True)
    except (MatexError, ft.FtError) as error:
        _print_line(str(error))
        ft.fail_stop(str(error))
    sys.argv = [str(file_of(script, module=module)), *arguments]  # whose text is looked at
    process = os.getpid()
    with ft.shielded():
        try:
            adapter.start()
            run_program(script, arguments, module=module)
        except PreemptedExit as leaving:
            adapter.finish()
            return int(leaving.code or 0)
        except SpareReleased:
            adapter.finish()
            return 0
        except DataError as error:
            _end_by(error)
        except error_of_graphs() as error:
            if (unread := data_error_in(error)) is not None:
                _end_by(unread)
            # An average in a graph of the script's own failed: on every rank alike.
            if adapter.replicated.error is None:
                raise
            return _failed(adapter, adapter.replicated.error)
        except MatexError as error:
            return _failed(adapter, error)
    if os.getpid() != process:  # a child that the script forked has ended
        return 0
    adapter.finish()
    return 1 if adapter.run.outcome.lost_strictly else 0


def _end_by(error: DataError) -> NoReturn:
    """End this rank alone, which the others go on without."""
    _print_line(str(error))
    ft.fail_stop(str(error), error=error)


def _failed(adapter: KerasAdapter, error: MatexError) -> int:
    """Leave after *error*, which all ranks have raised, and print it once."""
    if isinstance(error, StopRequested):
        from matex.run.preemption import record_stop

        record_stop(adapter.run, str(error))
        adapter.finish()
        return 1
    _print_line(str(error))
    adapter.finish(reason=str(error))
    return 1


def _print_line(message: str) -> None:
    line = f"matex: {' '.join(message.split())}"
    print(line, file=console.own("stderr"), flush=True)
