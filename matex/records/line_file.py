"""A file to which several processes append lines of JSON, and from which any program can read."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = ["LineFile", "read_lines"]


class LineFile:
    """Appends lines, those of a call with one ``write``, so that lines of several do not mix.

    Args:
        path: file, made where there is none.

    Raises:
        OSError: it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = _opened(path)
        self._torn = False

    @property
    def is_removed(self) -> bool:
        """Whether somebody has removed the file."""
        return not os.fstat(self._file).st_nlink

    def make_again(self) -> list[dict[str, Any]]:
        """Make the file again, and its directory where that is gone, too.

        Returns:
            What the removed file held, everybody's, which can be read as long as it is open.

        Raises:
            OSError: it cannot be made; or a file server has thrown away what was removed.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        new = _opened(self._path)
        removed, self._file, self._torn = self._file, new, False
        with os.fdopen(removed) as file:
            file.seek(0)
            return _whole_lines(file)

    def append(self, records: Iterable[Any]) -> None:
        """Append a line for each of *records*.

        Raises:
            OSError: they are not, or not all, written; what is there of them no reader takes.
        """
        lines = "".join(json.dumps(record) + "\n" for record in records)
        # After a part of a line that a full disk took, one that no reader understands.
        content = ("\n" * self._torn + lines).encode()
        written = os.write(self._file, content)
        self._torn = 0 < written < len(content)
        if written < len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects in all whole lines of *path*.

    Left out are an unfinished last line, and parts of lines for which a disk had no room.
    """
    with path.open() as file:
        return _whole_lines(file)


def _whole_lines(lines: Iterable[str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for line in lines:
        if line.endswith("\n"):
            with contextlib.suppress(json.JSONDecodeError):
                found.append(json.loads(line))
    return found
