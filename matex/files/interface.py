"""Interface of a process's files, as used by the replaced functions."""

from __future__ import annotations

from typing import Any, Protocol

from matex.files.view import FileView

__all__ = ["Files"]


class Files(Protocol):
    """The files that the script of this process reads and writes. Local.

    ``at_end`` are paths that are removed when the script has ended everywhere.
    """

    at_end: list[str]

    @property
    def others_first(self) -> bool:
        """Whether another process of this host first does work that is done once for all."""

    @property
    def run(self) -> str:
        """Name of the run, equal in all of its processes."""

    def view(self) -> FileView | None:
        """View of the script; None if this thread works on the real files."""

    def path(self, given: Any, *, follow: bool = True) -> str | None:
        """Path in the view for the script's path; None for one that is always real."""

    def temporary(self, path: str) -> None:
        """Note that *path* has a unique name, which no other process uses."""
