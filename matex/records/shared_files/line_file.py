"""A file to which several processes append lines of JSON, and from which any program can read."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from matex.records.json_text import to_json
from matex.records.shared_files.append_lock import AppendLock

__all__ = ["LineFile", "is_whole", "read_lines"]


class LineFile:
    """Appends lines; the lines of a call by one ``write``, so that writers do not mix lines.

    Args:
        path: file, created if it does not exist.
        lock: lock of the file; None, the default, if no other process appends to it.

    Raises:
        OSError: it cannot be opened.
    """

    def __init__(self, path: Path, *, lock: AppendLock | None = None) -> None:
        self._path = path
        self._lock = lock
        self._file = _opened(path)

    @property
    def is_removed(self) -> bool:
        """Whether the file has been removed."""
        return not os.fstat(self._file).st_nlink

    def make_again(self) -> list[dict[str, Any]]:
        """Create the file again, and its directory if that was removed, too.

        Returns:
            Content of the removed file, from all writers, which is readable while it is open.

        Raises:
            OSError: it cannot be created; or a file server has deleted the removed file.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        new = _opened(self._path)
        removed, self._file = self._file, new
        with os.fdopen(removed, errors="replace") as file:
            file.seek(0)
            return _whole_lines(file)

    def append(self, records: Iterable[Any]) -> None:
        """Append a line for each of *records*.

        Raises:
            OSError: not all lines were written; readers ignore the partial ones.
        """
        lines = "".join(to_json(record) + "\n" for record in records).encode()
        with nullcontext() if self._lock is None else self._lock.held(self._file):
            content = lines if is_whole(self._file) else b"\n" + lines
            written = os.write(self._file, content)
        if written < len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)


def is_whole(file: int) -> bool:
    """Whether the last line of *file*, of whichever process, is whole: else the next is its end.

    A full disk may have taken a part of a line, or a host have lost power over it.
    """
    size = os.fstat(file).st_size
    while size and os.pread(file, 1, size - 1) != b"\n":
        # Another process may be in the middle of its line: a local disk looks for holes under the
        # lock under which it writes, so that this waits for it.
        with contextlib.suppress(OSError):
            os.lseek(file, 0, os.SEEK_HOLE)
        before, size = size, os.fstat(file).st_size
        if size == before:
            return False
    return True


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects in all whole lines of *path*.

    An unfinished last line, parts of lines for which a disk had no room, and damaged ones are left
    out.
    """
    with path.open(errors="replace") as file:
        return _whole_lines(file)


def _whole_lines(lines: Iterable[str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for line in lines:
        if line.endswith("\n"):
            # No JSON, a number of thousands of digits, or brackets in brackets without end.
            with contextlib.suppress(ValueError, RecursionError):
                found.append(json.loads(line))
    return found
