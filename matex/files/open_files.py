"""Files that this process has open to write, however it opened them. Local."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import stat
import sys
import zipfile
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from matex.files import real

__all__ = ["OpenFile", "finish", "flush", "redirect", "written"]

_BUFFERS = (io.BufferedWriter, io.BufferedRandom)
_PLAIN = (*_BUFFERS, io.BufferedReader, io.BufferedRWPair)
_KINDS = (io.TextIOWrapper, io.BufferedIOBase, zipfile.ZipFile)


class OpenFile(NamedTuple):
    """A descriptor that can be written to, and the real path of its file."""

    descriptor: int
    path: str
    flags: int
    position: int

    @property
    def is_at_end(self) -> bool:
        """Whether what is written next follows all that is there."""
        if self.flags & os.O_APPEND:
            return True
        try:
            return self.position == os.fstat(self.descriptor).st_size
        except OSError:  # closed meanwhile
            return False


def written() -> Iterator[OpenFile]:
    """All of this process."""
    with real.direct():
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                path = os.readlink(f"/proc/self/fd/{name}")
                if not path.startswith("/") or not os.path.isfile(path):
                    continue
                with open(f"/proc/self/fdinfo/{name}") as file:
                    told = dict(line.split(":", 1) for line in file if ":" in line)
                flags = int(told["flags"], 8)
                if flags & os.O_ACCMODE != os.O_RDONLY:
                    yield OpenFile(int(name), path, flags, int(told["pos"]))


def redirect(file: OpenFile, path: str) -> None:
    """Make the descriptor of *file* one of the file *path*, at the same position.

    Raises:
        OSError: *path* cannot be opened, or the descriptor is closed.
    """
    opened = os.open(path, file.flags & ~(os.O_CREAT | os.O_EXCL | os.O_TRUNC))
    try:
        os.lseek(opened, os.lseek(file.descriptor, 0, os.SEEK_CUR), os.SEEK_SET)
        os.dup2(opened, file.descriptor, inheritable=os.get_inheritable(file.descriptor))
    finally:
        os.close(opened)


def flush(files: Iterable[Any]) -> None:
    """Write what Python's *files* hold back."""
    for file in list(files):
        with contextlib.suppress(OSError, ValueError):  # closed, or on a full disk
            file.flush()


def finish() -> None:
    """Write what all files of this process hold back, as the end of the interpreter does. Local.

    For a process that ends without one. Python's text files and buffers stay open; archives and
    compressed files, whose ends are written when they are closed, do not.
    """
    found = [each for each in gc.get_objects() if issubclass(type(each), _KINDS)]
    flush(file for file in found if isinstance(file, io.TextIOWrapper) and _is_regular(file))
    # An archive may be in a compressed file, and that in a buffer.
    for archive in (file for file in found if isinstance(file, zipfile.ZipFile)):
        _close(archive)
    for file in found:
        if isinstance(file, io.BufferedIOBase) and type(file) not in _PLAIN and _is_regular(file):
            _close(file)
    flush(file for file in found if isinstance(file, _BUFFERS) and _is_regular(file))
    h5py = sys.modules.get("h5py")
    if h5py is not None:
        with contextlib.suppress(RuntimeError, OSError, ValueError):
            for file in h5py.h5f.get_obj_ids(h5py.h5f.OBJ_ALL, h5py.h5f.OBJ_FILE):
                h5py.h5f.flush(file)


def _is_regular(file: Any) -> bool:
    """Whether *file* is open to write and on a disk: not a pipe, which can make a writer wait."""
    try:
        return file.writable() and stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except (OSError, ValueError, AttributeError):
        return False


def _close(file: Any) -> None:
    with contextlib.suppress(OSError, ValueError, RuntimeError):
        file.close()
