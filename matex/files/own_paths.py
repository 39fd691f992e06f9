"""Paths for which a process has its own files, and paths for which it has not."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from matex.files.view import FileView

__all__ = ["OwnPaths"]

_SYSTEM = ("/dev", "/proc", "/sys")


class OwnPaths:
    """Maps the script's paths to paths of its view. Local.

    Args:
        view: files of this process.
        passed: directories whose files are common to all, beside the system's; None for none.
    """

    def __init__(self, view: FileView, passed: Iterable[Path | str | None]) -> None:
        self._view = view
        self._passed = tuple(f"{Path(p).absolute()}/" for p in (*_SYSTEM, *passed) if p is not None)
        self._temporary: set[str] = set()

    def path(self, given: Any, *, follow: bool = True) -> str | None:
        """Path in the view for the script's path; None for one that is always real."""
        if isinstance(given, bytes):
            given = os.fsdecode(given)
        elif not isinstance(given, str):
            if not hasattr(given, "__fspath__"):
                return None
            given = os.fspath(given)
            if isinstance(given, bytes):
                given = os.fsdecode(given)
        if not given or "\0" in given:
            return None
        path = os.path.abspath(given)
        if f"{path}/".startswith(self._passed) or "/__pycache__" in path:
            return None
        if self._temporary and self._is_temporary(path):
            return None
        return self._view.canonical(path, follow=follow)

    def _is_temporary(self, path: str) -> bool:
        while path != "/":
            if path in self._temporary:
                return True
            path = os.path.dirname(path)
        return False

    def temporary(self, path: str) -> None:
        """Note that *path* has a unique name, which no other process uses."""
        self._temporary.add(os.path.abspath(path))
