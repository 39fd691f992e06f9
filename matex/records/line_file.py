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

    def make_again(self) -> None:
        """Make the file again, and its directory where that is gone, too.

        Raises:
            OSError: it cannot be made.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        removed, self._file = self._file, _opened(self._path)
        os.close(removed)
        self._torn = False

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
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects in all whole lines of *path*.

    Left out are an unfinished last line, and parts of lines for which a disk had no room.
    """
    found: list[dict[str, Any]] = []
    with path.open() as file:
        for line in file:
            if line.endswith("\n"):
                with contextlib.suppress(json.JSONDecodeError):
                    found.append(json.loads(line))
    return found
