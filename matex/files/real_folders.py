"""Directories without symbolic links in their names, cached because of frequent use."""

from __future__ import annotations

import os
from collections.abc import Mapping

from matex.files import real

__all__ = ["RealFolders"]


class RealFolders:
    """The real name of each directory that was asked for. Local."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def canonical(self, path: str, links: Mapping[str, str], *, follow: bool) -> str:
        """Absolute *path* without symbolic links, except for its last name.

        Args:
            path: absolute path.
            links: symbolic links of this rank's own tree, and their absolute targets.
            follow: whether the last name is resolved as well.
        """
        folder, name = os.path.split(path)
        known = self._folder(folder, links)
        path = os.path.join(known, name) if name else known
        for link, target in links.items():
            if path.startswith(f"{link}/"):
                return self.canonical(target + path[len(link) :], links, follow=follow)
            if follow and path == link:
                return self.canonical(target, links, follow=True)
        return path

    def _folder(self, folder: str, links: Mapping[str, str]) -> str:
        """Absolute *folder* without links; a folder of this rank's own hides a real one."""
        known = self._known.get(folder)
        if known is None:
            parent, name = os.path.split(folder)
            known = os.path.join(self._folder(parent, links), name) if name else folder
            if known in links:
                known = self._folder(links[known], links)
            else:
                with real.direct():
                    known = os.path.realpath(known)
            self._known[folder] = known
        return known

    def forget(self) -> None:
        """Ask anew for all, because a symbolic link was made or removed."""
        self._known.clear()
