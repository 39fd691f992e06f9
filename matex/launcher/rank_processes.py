"""The processes of a run on this host, by what the kernel says of them."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

__all__ = ["holders", "is_gone", "processes_with", "ranks_below", "setting_of"]

_PROC = Path("/proc")
_RANK = "PMIX_RANK"  # which Open MPI's launcher sets for each rank


def ranks_below(pid: int) -> dict[int, int]:
    """Process of each rank among the descendants of *pid*.

    The descendants of ranks, which inherit the variable, are not looked at. A process that has not
    yet become a rank, or that just ends, may be missing.
    """
    found: dict[int, int] = {}
    waiting = _children(pid)
    while waiting:
        process = waiting.pop()
        rank = _rank_of(process)
        if rank is None:
            waiting += _children(process)
        else:
            found[rank] = process
    return found


def processes_with(setting: str) -> list[int]:
    """Processes on this host that were started with *setting*, a variable with its value.

    Zombies are none of them.
    """
    found = []
    for entry in _PROC.iterdir():
        # Zombies have no environment; other people's cannot be read.
        with contextlib.suppress(OSError):
            if entry.name.isdigit():
                settings = (entry / "environ").read_bytes().split(b"\0")
                found += [int(entry.name)] * (os.fsencode(setting) in settings)
    return found


def setting_of(pid: int, name: str) -> str | None:
    """The variable *name* with its value, ``NAME=VALUE``, with which process *pid* was started.

    None if it had none, or cannot be seen.
    """
    with contextlib.suppress(OSError):
        for setting in (_PROC / str(pid) / "environ").read_bytes().split(b"\0"):
            if setting.startswith(os.fsencode(f"{name}=")):
                return os.fsdecode(setting)
    return None


def holders(path: Path) -> list[int]:
    """Processes on this host that have the file *path* open, as far as they can be seen."""
    found = []
    for entry in _PROC.iterdir():
        with contextlib.suppress(OSError):  # it ended, or belongs to another user
            if entry.name.isdigit():
                files = list((entry / "fd").iterdir())
                found += [int(entry.name)] * any(_is(file, path) for file in files)
    return found


def is_gone(pid: int) -> bool:
    """Whether process *pid* has ended; False where that is unknown."""
    try:
        status = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return True
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] in ("Z", "X")


def _children(pid: int) -> list[int]:
    """The children of *pid*; none where it ends, or the kernel does not list them."""
    children: list[int] = []
    with contextlib.suppress(OSError):
        for thread in (_PROC / str(pid) / "task").iterdir():
            children += map(int, (thread / "children").read_text().split())
    return children


def _is(file: Path, path: Path) -> bool:
    """Whether *file* of a process, which may have closed it by now, is *path*."""
    try:
        return file.samefile(path)
    except OSError:
        return False


def _rank_of(pid: int) -> int | None:
    """Rank of process *pid* by its environment; None if it is none, or has ended."""
    setting = setting_of(pid, _RANK)
    return None if setting is None else int(setting.removeprefix(f"{_RANK}="))
