"""Directories of a run in the memory of its hosts: snapshots and Open MPI's segments.

Through its segment a rank shares memory with the others of its host. A rank that is killed
leaves it behind, so those of a run lie in a directory of their own, which can be removed.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from matex.config import SEGMENTS
from matex.records.shared_files.directory_holds import hold, unheld

__all__ = ["HostMemoryDirectories", "reserved"]

_MEMORY = Path("/dev/shm")
_SEGMENTS = "-mpi"  # end of the name of the directory for Open MPI


class HostMemoryDirectories(NamedTuple):
    """Two directories, with equal names on all hosts, created on demand.

    Who holds ``segments`` holds both.
    """

    snapshots: Path
    segments: Path

    @property
    def settings(self) -> dict[str, str]:
        """Environment variables that pass the directories to Open MPI and the ranks."""
        return {SEGMENTS: str(self.segments)}

    def hold(self) -> None:
        """Hold both for this run on this host, as long as this process lives; after each removal.

        A launcher in another namespace of process ids cannot see otherwise that this one lives.
        """
        with contextlib.suppress(OSError):  # the memory is full, or somebody has taken the name
            hold(self.segments)


@contextlib.contextmanager
def reserved(
    processes_with: Callable[[str], Sequence[int]],
) -> Iterator[HostMemoryDirectories | None]:
    """Context with directories of this run, removed from this host at its end; None without memory.

    Args:
        processes_with: function that gives the processes on this host that were started with a
            ``VARIABLE=VALUE``. Directories of killed launchers stay as long as their ranks live.
    """
    if not _MEMORY.is_dir():
        yield None
        return
    _remove_left(processes_with)
    path = _MEMORY / f"{_prefix(str(os.getpid()))}{uuid.uuid4().hex[:8]}"
    directories = HostMemoryDirectories(
        snapshots=path, segments=path.with_name(path.name + _SEGMENTS)
    )
    directories.hold()
    try:
        yield directories
    finally:
        for directory in directories:
            shutil.rmtree(directory, ignore_errors=True)


def _prefix(pid: str) -> str:
    host = re.sub(r"\W", "_", os.uname().nodename)
    return f"matex-{os.getuid()}-{pid}-{host}-"


def _remove_left(processes_with: Callable[[str], Sequence[int]]) -> None:
    """Remove directories of this user on this host whose launcher and ranks have ended.

    Those in other namespaces of process ids hold them.
    """
    for path in _MEMORY.glob(f"{_prefix('*')}*"):
        pid, name = path.name.split("-")[2], path.name.removesuffix(_SEGMENTS)
        if not pid.isdigit() or Path(f"/proc/{pid}").exists():
            continue
        segments = path.with_name(name + _SEGMENTS)
        with unheld(segments) as left:
            if left and not processes_with(f"{SEGMENTS}={segments}"):
                shutil.rmtree(path, ignore_errors=True)
