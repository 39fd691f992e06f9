"""Leftovers of a test run: processes, shared-memory files, temporary files.

Every process of a run inherits one token in its environment, so a rank that outlived its
launcher is found wherever it was re-parented, and nobody else's process ever is.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from ci.jobs import TOKEN
from matex.config import SEGMENTS

SHARED_MEMORY = Path("/dev/shm")
_AUTOGRAPH = "__autograph_generated_file"


def begin() -> str:
    """Give this process's future children a token and return it; an inherited one is kept."""
    return os.environ.setdefault(TOKEN, uuid.uuid4().hex)


def private_tmp() -> Path:
    """Make a temporary directory and let every later child use it as its own TMPDIR.

    Its name is short: MPI keeps sockets below it, and their paths are limited to 107 bytes.
    """
    path = Path(tempfile.mkdtemp(prefix="mx-"))
    os.environ["TMPDIR"] = str(path)
    return path


def processes(token: str) -> list[psutil.Process]:
    """Return the living processes that carry `token`, without this one and its ancestors.

    Those of a part of the run, whose token is this one, a dot and a name, are among them.
    """
    me = psutil.Process()
    family = {me.pid, *(parent.pid for parent in me.parents())}
    found = []
    for process in psutil.process_iter():
        if process.pid in family:
            continue
        try:
            # A zombie holds nothing; whether it is reaped is its parent's affair.
            mark = f"{process.environ().get(TOKEN)}."
            if mark.startswith(f"{token}.") and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def stray_processes(token: str, *, grace_s: float = 10.0) -> list[str]:
    """Describe and kill the token's processes that are still alive after `grace_s` seconds."""
    _, alive = psutil.wait_procs(processes(token), timeout=grace_s)
    lines = [_describe(process) for process in alive]
    kill(alive)
    return lines


def kill(victims: list[psutil.Process]) -> None:
    """SIGKILL each process by its pid and wait for the end of all."""
    for process in victims:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(victims, timeout=10)


def shared_memory() -> set[str]:
    """Return the names of this user's files in /dev/shm."""
    if not SHARED_MEMORY.is_dir():
        return set()
    names = set()
    for entry in SHARED_MEMORY.iterdir():
        try:
            if entry.stat().st_uid == os.getuid():
                names.add(entry.name)
        except FileNotFoundError:
            continue
    return names


@contextlib.contextmanager
def own_segments() -> Iterator[tuple[dict[str, str], Callable[[], list[str]]]]:
    """Let a job's ranks keep Open MPI's segments in a directory of their own.

    Yields:
        the variables for the job, and a function that names the segments that are left.
    """
    if not SHARED_MEMORY.is_dir():
        yield {}, list
        return
    # Named like the folder of a run, it is no leftover for other tests while this process lives.
    name = f"matex-{os.getuid()}-{os.getpid()}-"
    path = Path(tempfile.mkdtemp(prefix=name, dir=SHARED_MEMORY))
    try:
        yield {SEGMENTS: str(path)}, lambda: sorted(str(entry) for entry in path.iterdir())
    finally:
        shutil.rmtree(path)


def stray_shared_memory(before: set[str]) -> list[str]:
    """Name and delete what is new in /dev/shm and in no living process's use.

    A file that some process maps belongs to another job of this user on this machine, and so
    does a folder whose name carries the number of a living process: matex-USER-PID-...
    """
    new = {name for name in shared_memory() - before if not _is_of_living_run(name)}
    if not new:
        return []
    for maps in Path("/proc").glob("[0-9]*/maps"):
        try:
            text = maps.read_text(errors="replace")
        except OSError:  # ended meanwhile, or another user's
            continue
        new = {name for name in new if f"{SHARED_MEMORY}/{name}" not in text}
    for name in new:
        path = SHARED_MEMORY / name
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    return sorted(new)


def _is_of_living_run(name: str) -> bool:
    own, *rest = name.split("-")
    return (
        own == "matex" and len(rest) > 1 and rest[1].isdigit() and psutil.pid_exists(int(rest[1]))
    )


def stray_tmp(path: Path) -> list[str]:
    """Name what MPI and matex left in the private temporary directory, then delete all of it.

    No leftovers are: pytest's own folders, the source files that TensorFlow's autograph writes and
    that a killed rank cannot delete, Python's compiled copies of these, and the empty folders of an
    MPI that had no launcher.
    """
    expected = ("pytest-of-", _AUTOGRAPH)
    names = sorted(
        entry.name
        for entry in path.iterdir()
        if not entry.name.startswith(expected)
        and _holds_files(entry)
        and not _is_compiled_autograph(entry)
    )
    shutil.rmtree(path, ignore_errors=True)
    return names


def _is_compiled_autograph(entry: Path) -> bool:
    """Whether *entry* is the folder of what Python compiled of autograph's sources beside it."""
    if entry.name != "__pycache__":
        return False
    return all(compiled.name.startswith(_AUTOGRAPH) for compiled in entry.iterdir())


def _holds_files(entry: Path) -> bool:
    return not entry.is_dir() or any(not inner.is_dir() for inner in entry.rglob("*"))


def _describe(process: psutil.Process) -> str:
    try:
        return f"{process.pid} {' '.join(process.cmdline())}"
    except psutil.NoSuchProcess:
        return f"{process.pid}"
