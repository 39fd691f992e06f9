"""Files and unseeded random numbers of a script: one rank's, if there are several ranks."""

from __future__ import annotations

import secrets
import sys
from pathlib import Path

import numpy as np

import ft
from matex.files import intercept, keras_files, library_files, open_files, programs
from matex.files.discarded import OnlyFiles
from matex.files.private import PrivateFiles, asks_for_rank
from matex.process import entropy, tensorflow_files
from matex.run.context import RunContext
from matex.run.life_cycle import RunLifeCycle

__all__ = ["separate_files"]

_KEY_BYTES = 32


def separate_files(run: RunContext, life_cycle: RunLifeCycle) -> PrivateFiles | None:
    """Make file operations and system randomness of the script one rank's; collective.

    From here on, and as long as the process lasts.

    Args:
        run: ranks and directories of the run.
        life_cycle: life cycle of the run, which tells when the script has ended on every rank.

    Returns:
        Files of this rank; None if it is the only one.
    """
    if run.communicator.initial_size == 1:
        ft.on_fail_stop(lambda reason: _complete(None))
        only = OnlyFiles()
        tensorflow_files.install_cache(only)
        life_cycle.at_end(only.finish)
        return None
    run.ranks.key = run.ranks.key or _agreed_key(run.communicator)
    entropy.install(run.ranks.key)
    own = run.config
    files = PrivateFiles(
        run.communicator,
        run.ranks.key,
        (own.report, own.checkpoint, own.memory, own.cache_directory),
    )
    if asks_for_rank(_text_of(Path(sys.argv[0]))):
        files.script_knows_ranks()
    life_cycle.at_end(files.finish)
    ft.on_fail_stop(lambda reason: _complete(files))
    intercept.install(files)
    library_files.install(files)
    tensorflow_files.install(files)
    keras_files.install(files)
    programs.install(files)
    return files


def _complete(files: PrivateFiles | None) -> None:
    """Write what open files hold back where the program ends this process, which no end follows."""
    if ft.program_error() is None:
        return
    if files is not None:
        files.complete()
    open_files.finish()


def _agreed_key(communicator: ft.Communicator) -> str:
    """Secret text of the leader, for all ranks; collective."""
    key = np.frombuffer(secrets.token_bytes(_KEY_BYTES), np.uint8).copy()
    communicator.broadcast(key)
    return key.tobytes().hex()


def _text_of(script: Path) -> str:
    try:
        return script.read_text(errors="replace")
    except OSError:  # none, as in a notebook
        return ""
