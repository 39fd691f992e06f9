"""The environment of ranks that share their cores with others: who waits leaves the core."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from ci.jobs import ROOT

__all__ = ["core_sharing"]

_SOURCE = Path(__file__).with_suffix(".c")
_FOLDER = ROOT / ".test-reports"


@functools.cache
def core_sharing() -> dict[str, str]:
    """Variables with which a process that waits in MPI leaves its core to any other; local.

    Open MPI yields while it waits, and a yield gives the core to programs of the same session
    only. The library of ``core_sharing.c`` makes it a short sleep. Without a C compiler, or on
    another system than Linux, ranks just yield.
    """
    variables = {"OMPI_MCA_mpi_yield_when_idle": "1"}
    compiler = shutil.which("cc")
    if compiler is None or os.uname().sysname != "Linux":
        return variables
    return {**variables, "LD_PRELOAD": str(_library(compiler))}


def _library(compiler: str) -> Path:
    """Path of the library; it is built if it is not there, or older than its source."""
    library = _FOLDER / f"{_SOURCE.stem}.so"
    if library.exists() and library.stat().st_mtime >= _SOURCE.stat().st_mtime:
        return library
    _FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_FOLDER) as folder:
        built = Path(folder) / library.name
        subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", built, _SOURCE], check=True)
        built.replace(library)  # at once: other processes may be loading it
    return library
