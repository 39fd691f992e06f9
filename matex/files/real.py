"""Python's own functions, as they were before any was replaced."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import threading
from collections.abc import Iterator
from stat import S_ISDIR, S_ISLNK

__all__ = [
    "aside_name",
    "copy",
    "direct",
    "identity",
    "is_direct",
    "isdir",
    "islink",
    "lexists",
    "names",
    "same",
]

open = io.open
stat = os.stat
lstat = os.lstat
mkdir = os.mkdir
rmdir = os.rmdir
unlink = os.unlink
replace = os.replace
symlink = os.symlink
readlink = os.readlink
listdir = os.listdir
link = os.link
close = os.close
access = os.access
chdir = os.chdir
getcwd = os.getcwd
utime = os.utime

_direct = threading.local()


@contextlib.contextmanager
def direct() -> Iterator[None]:
    """Context in which this thread works on the real files, whatever it calls."""
    _direct.depth = getattr(_direct, "depth", 0) + 1
    try:
        yield
    finally:
        _direct.depth -= 1


def is_direct() -> bool:
    return getattr(_direct, "depth", 0) > 0


def lexists(path: str) -> bool:
    try:
        lstat(path)
    except (OSError, ValueError):
        return False
    return True


def isdir(path: str) -> bool:
    try:
        return S_ISDIR(stat(path).st_mode)
    except (OSError, ValueError):
        return False


def identity(path: str) -> tuple[int, int] | None:
    """Device and inode of the real file *path*; None if it does not exist."""
    try:
        now = lstat(path)
    except OSError:
        return None
    return now.st_dev, now.st_ino


def islink(path: str) -> bool:
    try:
        return S_ISLNK(lstat(path).st_mode)
    except (OSError, ValueError):
        return False


def names(path: str) -> list[str]:
    """Names in the directory *path*; empty if there is none."""
    try:
        return listdir(path)
    except (FileNotFoundError, NotADirectoryError):
        return []


def same(a: str, b: str) -> bool:
    """Whether both are files of the same content."""
    import filecmp

    with direct():
        return os.path.isfile(a) and os.path.isfile(b) and filecmp.cmp(a, b, shallow=False)


def aside_name(target: str) -> str:
    """Name next to *target*, unique to this process, for a file that will replace it."""
    return os.path.join(os.path.dirname(target), f".{os.getpid()}.{os.path.basename(target)}")


def copy(source: str, target: str, aside: str | None = None) -> None:
    """Copy a file, its mode and times, so that readers of *target* see the whole file or none.

    Args:
        aside: name of the copy until it is complete.
    """
    aside = aside_name(target) if aside is None else aside
    with direct():
        try:
            shutil.copyfile(source, aside)
            with contextlib.suppress(OSError):
                shutil.copystat(source, aside)
            os.replace(aside, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(aside)
            raise
