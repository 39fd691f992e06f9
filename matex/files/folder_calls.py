"""Functions of ``os`` that list a directory, redirected to this rank's view."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from typing import Any

from matex.files.given_names import viewed_path, with_given_names
from matex.files.interface import Files

__all__ = ["getcwd", "listdir", "scandir"]


def listdir(files: Files) -> Any:
    original = os.listdir

    @functools.wraps(original)
    def listdir(path: Any = ".") -> Any:
        return _read(files, path, original, whole=lambda names: names, viewed=lambda names: names)

    return listdir


def scandir(files: Files) -> Any:
    original = os.scandir

    @functools.wraps(original)
    def scandir(path: Any = ".") -> Any:
        return _read(
            files,
            path,
            original,
            whole=lambda entries: _Scan(iter(list(entries))),
            viewed=lambda names: _Scan(ViewedEntry(os.fspath(path), name) for name in names),
        )

    return scandir


def _read(
    files: Files,
    path: Any,
    original: Callable[[Any], Any],
    *,
    whole: Callable[[Any], Any],
    viewed: Callable[[list[str]], Any],
) -> Any:
    """Read the directory *path*: by *original* if the view equals the real one.

    The leader may change a directory while another rank reads it. So the other reads it to its
    end, and then asks again whether the two are one.

    Args:
        whole: function that reads a result of *original* to its end.
        viewed: function that makes the result from the names in the view.
    """
    found = None if isinstance(path, bytes) or path is None else viewed_path(files, path)
    if found is None:
        return original(path)
    view, folder = found
    if not view.is_touched(folder):
        result = original(path if view.folder is None else folder)
        if view.leads:
            return result
        result = whole(result)
        if not view.is_touched(folder):
            return result
    return viewed(with_given_names(lambda: view.names(folder), path))


def getcwd(files: Files) -> Any:
    original = os.getcwd

    @functools.wraps(original)
    def getcwd() -> str:
        view = files.view()
        if view is None:
            return original()
        if view.folder is None:
            try:
                return original()
            except FileNotFoundError:
                if view.leads or view.entered is None:
                    raise
                view.folder = view.entered  # the leader has removed it already
        return view.folder

    return getcwd


class ViewedEntry:
    """The ``os.DirEntry`` of a view."""

    def __init__(self, folder: str, name: str) -> None:
        self.name = name
        self.path = os.path.join(folder, name)

    def __fspath__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return f"<DirEntry {self.name!r}>"

    def inode(self) -> int:
        return self.stat(follow_symlinks=False).st_ino

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return os.path.isdir(self.path) and (follow_symlinks or not self.is_symlink())

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return os.path.isfile(self.path) and (follow_symlinks or not self.is_symlink())

    def is_symlink(self) -> bool:
        return os.path.islink(self.path)

    def is_junction(self) -> bool:
        return False

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        return os.stat(self.path) if follow_symlinks else os.lstat(self.path)


class _Scan:
    def __init__(self, entries: Iterator[Any]) -> None:
        self._entries = entries

    def __iter__(self) -> Iterator[Any]:
        return self._entries

    def __next__(self) -> Any:
        return next(self._entries)

    def __enter__(self) -> _Scan:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._entries = iter(())
