"""Files of a script whose process is the only one that works on them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from matex.files import real
from matex.files.own_paths import OwnPaths
from matex.files.scratch import Scratch
from matex.files.view import FileView

__all__ = ["DiscardedFiles", "OnlyFiles"]


class OnlyFiles:
    """Files of the only rank of a run, which are the real ones. One per process.

    Args:
        passed: directories whose files are always the real ones; none by default.
    """

    others_first = False
    _leads = True

    def __init__(self, passed: Iterable[Path] = ()) -> None:
        self._view = FileView(Scratch(), None, leads=self._leads)
        self._paths = OwnPaths(self._view, passed)
        self.run = f"only-{os.getpid()}"
        self.at_end: list[str] = []

    def view(self) -> FileView | None:
        """View of the script; None if this thread works on the real files."""
        return None if real.is_direct() else self._view

    def path(self, given: Any, *, follow: bool = True) -> str | None:
        """Path in the view for the script's path; None for one that is always real."""
        return self._paths.path(given, follow=follow)

    def temporary(self, path: str) -> None:
        """Note that *path* has a unique name, which no other process uses."""
        self._paths.temporary(path)

    def finish(self) -> None:
        """Remove all files that are not the real ones, after the script's end. Local."""
        with real.direct():
            self._view.scratch.remove()
            for path in self.at_end:
                with contextlib.suppress(OSError):
                    os.unlink(path)


class DiscardedFiles(OnlyFiles):
    """Files of a process beside a run, which reads the real files and changes none.

    Args:
        passed: directories in which it does write.
    """

    _leads = False
