"""Files that this process has open to write, however it opened them. Local."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from matex.files import real

__all__ = ["OpenFile", "flush", "written"]


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
    with real.passing():
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


def flush(files: Iterable[Any]) -> None:
    """Write what Python's *files* hold back."""
    for file in list(files):
        with contextlib.suppress(OSError, ValueError):  # closed, or on a full disk
            file.flush()
