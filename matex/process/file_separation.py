"""The files of a script are those of one rank, where there are several."""

from __future__ import annotations

import sys
from pathlib import Path

from matex.files import intercept, keras_files, library_files
from matex.files.private import PrivateFiles, asks_for_rank
from matex.process import tensorflow_files
from matex.run.context import RunContext
from matex.run.life_cycle import RunLifeCycle

__all__ = ["separate_files"]


def separate_files(run: RunContext, life_cycle: RunLifeCycle) -> PrivateFiles | None:
    """Let what the script does to files, from here on, be that of one rank; collective.

    Args:
        run: ranks and directories of the run.
        life_cycle: tells when the script has ended on every rank.

    Returns:
        The files of this rank; None where it is the only one.
    """
    if run.communicator.initial_size == 1:
        return None
    own = run.config
    files = PrivateFiles(
        run.communicator, (own.report, own.checkpoint, own.memory, own.cache_directory)
    )
    if asks_for_rank(_text_of(Path(sys.argv[0]))):
        files.script_knows_ranks()
    life_cycle.at_end(files.finish)
    intercept.install(files)
    library_files.install(files)
    tensorflow_files.install(files)
    keras_files.install(files)
    return files


def _text_of(script: Path) -> str:
    try:
        return script.read_text(errors="replace")
    except OSError:  # none, as in a notebook
        return ""
