"""The tree of the files that only this rank sees, under a name that is the same on all ranks.

The name goes through a descriptor: ``/proc/self/fd/900/home/me/x.csv`` is a file of this rank's own
tree, and ``/home/me/x.csv`` itself once this rank leads. So objects that keep such a name (a
tf.data pipeline, a checkpoint manager) follow; and data that contain names are equal on all ranks.
The descriptor is taken when this module is imported, before MPI opens connections, which may come
to have any number.
"""

from __future__ import annotations

import fcntl
import os
import re
import resource
import shutil
import tempfile
import uuid
from pathlib import Path

from matex.files import real
from matex.records.shared_files.directory_holds import hold, unheld

__all__ = ["ALIAS", "Scratch", "remove_left"]

_LEAST = 900  # high enough to be free on every rank


def _reserve() -> int:
    """Number of a new descriptor, the same on all ranks unless many files are open already."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    if soft != unlimited and soft <= _LEAST:
        soft = 2 * _LEAST if hard == unlimited else min(2 * _LEAST, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    descriptor = _opened("/")
    try:
        least = _LEAST if soft == unlimited else min(_LEAST, soft // 2)
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, least)
    finally:
        os.close(descriptor)


def _opened(directory: str) -> int:
    return os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


_NUMBER = _reserve()
#: Prefix of an absolute path.
ALIAS = f"/proc/self/fd/{_NUMBER}"


class Scratch:
    """This rank's own tree, created at first use. Local."""

    def __init__(self) -> None:
        self._root: str | None = None
        self._hold = -1  # as long as there is a tree
        self._pid = os.getpid()
        self._cuts = 0
        _point_at("/")

    @property
    def made(self) -> bool:
        return self._root is not None

    @property
    def tree(self) -> str:
        """Directory that stands for ``/``, by its own name."""
        assert self._root is not None
        return f"{self._root}/tree"

    def ensure(self) -> None:
        if self._root is None:
            with real.direct():
                name = f"{_prefix(str(self._pid))}{uuid.uuid4().hex[:8]}"
                self._root = f"{tempfile.gettempdir()}/{name}"
                self._hold = hold(Path(self._root))
                os.makedirs(self.tree, mode=0o700)
            _point_at(self.tree)

    def new_name(self) -> str:
        """A new path, for a file outside of the tree."""
        self.ensure()
        self._cuts += 1
        return f"{self._root}/cut-{self._cuts}"

    def lead(self) -> None:
        """Make the name of this rank's tree stand for the real one from now on."""
        _point_at("/")

    def remove(self) -> None:
        """Remove the tree; local."""
        _point_at("/")
        if self._root is not None and os.getpid() == self._pid:
            with real.direct():
                shutil.rmtree(self._root, ignore_errors=True)
                os.close(self._hold)
            self._root = None


def remove_left() -> None:
    """Remove trees of this user's dead ranks on this host, such as killed ones. Local.

    Those in other namespaces of process ids hold theirs.
    """
    with real.direct():
        for path in Path(tempfile.gettempdir()).glob(f"{_prefix('*')}*"):
            pid = path.name.split("-")[3]
            if pid.isdigit() and not Path(f"/proc/{pid}").exists():
                with unheld(path) as left:
                    if left:
                        shutil.rmtree(path, ignore_errors=True)


def _prefix(pid: str) -> str:
    host = re.sub(r"\W", "_", os.uname().nodename)
    return f"matex-files-{os.getuid()}-{pid}-{host}-"


def _point_at(directory: str) -> None:
    descriptor = _opened(directory)
    try:
        os.dup2(descriptor, _NUMBER, inheritable=False)
    finally:
        os.close(descriptor)
