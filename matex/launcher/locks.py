"""Lock of a directory for one run: two runs would overwrite each other's files.

The launcher takes it, and mpiexec inherits it: where the launcher is killed, the ranks train on,
and the directory is theirs until mpiexec has ended with them.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from matex.config import JOB
from matex.errors import InputError
from matex.launcher.rank_processes import holders, processes_with, setting_of

__all__ = ["LOCK", "leave_inherited", "locked", "owned"]

LOCK = ".matex-lock"


@contextlib.contextmanager
def _made(directory: Path) -> Iterator[None]:
    """Make *directory*, and remove what was made of it if the block ends by a refusal. Local.

    Raises:
        OSError: it cannot be made.
    """
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    directory.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except InputError:
        with contextlib.suppress(OSError):  # somebody has put files there
            for path in missing:
                path.rmdir()
        raise


@contextlib.contextmanager
def owned(directory: Path, option: str) -> Iterator[int | None]:
    """Hold *directory* as long as the block runs; the context is the open lock file. Local.

    The system releases it when this process and those that inherited the file have ended, however
    that happens. If the directory cannot be made or its file system has no locks, nothing is held,
    and there is no file: later use of the directory reports that. A directory that was made for a
    run that is then refused is removed.

    Args:
        option: name of the option that names the directory.

    Raises:
        InputError: another run holds it, or a file is in its place.
    """
    path = directory / LOCK
    stack = contextlib.ExitStack()
    try:
        stack.enter_context(_made(directory))
        file = locked(path)
    except BlockingIOError:
        raise InputError(
            f"{option} must be a directory that no other run uses. Received: {directory}, "
            f"{_owner(path)}, or give another one"
        ) from None
    except (FileExistsError, NotADirectoryError) as error:
        received = f"{directory}: {error.strerror}; give the path of a directory, or a new one"
        raise InputError(f"{option} must be a directory. Received: {received}") from None
    except OSError:
        with stack:
            yield None
        return
    with stack, _noted(file, path):
        yield file


@contextlib.contextmanager
def _noted(file: int, path: Path) -> Iterator[None]:
    """Context in which the lock *file* at *path* says whose it is; it is removed afterwards."""
    try:
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        owner = {"host": socket.gethostname(), "pid": os.getpid(), "since": since}
        os.ftruncate(file, 0)
        os.pwrite(file, json.dumps(owner).encode(), 0)
        yield
    finally:
        with contextlib.suppress(OSError):  # the directory may have been removed
            if _is_at(path, file):
                path.unlink()
        os.close(file)


def _is_at(path: Path, file: int) -> bool:
    """Whether *path* names the open *file*, and not another run's in a directory made anew.

    Raises:
        OSError: there is none.
    """
    return os.path.samestat(path.stat(), os.fstat(file))


def locked(path: Path) -> int:
    """The lock file at *path*, made if it is missing, open and locked.

    Raises:
        BlockingIOError: another process has locked it.
        OSError: there is no directory, or the file system has no locks.
    """
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with contextlib.suppress(FileNotFoundError):  # removed by its last owner meanwhile
                if _is_at(path, file):
                    return file
        except BaseException:
            os.close(file)
            raise
        os.close(file)


def leave_inherited() -> None:
    """Close lock files that this rank inherited: what it starts may outlive the run. Local.

    Open MPI's mpiexec hands no files on to ranks, MPICH's does.
    """
    for file in list(Path("/proc/self/fd").iterdir()):
        with contextlib.suppress(OSError):  # it was the one by which they were listed
            if file.readlink().name == LOCK:
                os.close(int(file.name))


def _owner(path: Path) -> str:
    """Words on who has locked *path*, and what to do."""
    try:
        owner = json.loads(path.read_text())
        pid, whose = owner["pid"], "process {pid} on {host} has used since {since}".format(**owner)
    except (OSError, ValueError, KeyError):
        return "which another run has just begun to use; wait for its end"
    found = holders(path)
    if pid in found:
        return f"which {whose}; wait for its end"
    # Only what mpiexec and its like were started with: another launcher may just be trying.
    jobs = {holder: job for holder in found if (job := setting_of(holder, JOB)) is not None}
    if not jobs:  # on another host, or another user's
        return f"which the run of {whose}; wait for its end"
    mpiexec = min(jobs, key=lambda holder: (not _leads(holder), holder))
    if processes_with(jobs[mpiexec]) == [mpiexec]:
        left = f"its mpiexec, process {mpiexec}, has not ended with the ranks"
        return f"which the run of {whose}; that process is gone, {left}: kill -KILL {mpiexec}"
    left = f"its ranks still run, below process {mpiexec}"
    instead = f"wait for their end, make them save and leave by kill -USR1 {mpiexec}"
    return f"which the run of {whose}; that process is gone, {left}: {instead}"


def _leads(pid: int) -> bool:
    """Whether process *pid* leads a session, as the mpiexec of a run does."""
    try:
        return os.getsid(pid) == pid
    except ProcessLookupError:  # it has just ended
        return False
