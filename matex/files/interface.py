"""The files of a process as the replaced functions see them: one interface."""

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
        """Whether another process of this host does first what one does for all."""

    @property
    def run(self) -> str:
        """A name of the run, equal in all of its processes."""

    def view(self) -> FileView | None:
        """The view of the script; None where this thread works on the real files."""

    def path(self, given: Any, *, follow: bool = True) -> str | None:
        """The path of the view that the script means; None for what is always the real one."""

    def temporary(self, path: str) -> None:
        """Note that *path* was given a name that no other process has."""
