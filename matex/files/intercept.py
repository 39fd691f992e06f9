"""Python's functions on files, replaced by ones that ask what this rank sees.

What is built on them follows: ``os.path``, ``pathlib``, ``glob``, ``shutil``, ``zipfile``, NumPy's
``save`` and ``load``, pickles, pictures, tables.
"""

from __future__ import annotations

import builtins
import functools
import io
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from typing import Any

from matex.files import changes, real, temporary, trees
from matex.files.ledger import Change
from matex.files.private import PrivateFiles
from matex.files.scratch import ALIAS
from matex.files.view import FileView, missing

__all__ = ["install", "placed"]

# Standard modules that keep a function under a name of their own.
_KEEPERS = ("pathlib", "glob", "tarfile", "bz2", "zipfile", "shutil", "tokenize", "fileinput")

_READING = ("stat", "lstat", "access", "listxattr", "getxattr", "statvfs", "pathconf", "readlink")
_ATTRIBUTES = ("chmod", "chown", "lchown", "utime", "setxattr", "removexattr")
_NO_FOLLOWING = ("lstat", "readlink", "lchown")


def install(files: PrivateFiles) -> None:
    """Replace them, for the rest of the process. Local."""
    replaced: dict[Any, Any] = {io.open: _open(files)}
    for name in _READING:
        replaced[getattr(os, name)] = _reading(files, name)
    for name in _ATTRIBUTES:
        replaced[getattr(os, name)] = _attributes(files, name)
    replaced |= {
        os.open: _os_open(files),
        os.mkdir: _making(files),
        os.remove: _one(files, "remove", changes.remove),
        os.unlink: _one(files, "unlink", changes.remove),
        os.rmdir: _one(files, "rmdir", changes.remove_folder),
        os.rename: _two(files, "rename", changes.rename),
        os.replace: _two(files, "replace", changes.rename),
        os.link: _two(files, "link", changes.link),
        os.symlink: _symlink(files),
        os.truncate: _truncate(files),
        os.listdir: _listdir(files),
        os.scandir: _scandir(files),
        os.chdir: _one(files, "chdir", changes.change_folder),
        os.getcwd: _getcwd(files),
    }
    for name, value in list(vars(os).items()):
        if callable(value) and value in replaced:
            setattr(os, name, replaced[value])
    builtins.open = io.open = replaced[io.open]
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in _KEEPERS:
            _replace_in(vars(module), module, replaced)
    shutil._use_fd_functions = False  # type: ignore[attr-defined] # rmtree by names, which are ours
    for known in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
        known.update(replaced[f] for f in list(known) if f in replaced)
    temporary.install(files)
    trees.install(files)


def _replace_in(names: Any, owner: Any, replaced: dict[Any, Any]) -> None:
    for name, value in list(names.items()):
        inner = value.__func__ if isinstance(value, staticmethod) else value
        if isinstance(value, type) and value.__module__.partition(".")[0] in _KEEPERS:
            if owner is not value:
                _replace_in(vars(value), value, replaced)
        elif callable(inner) and _is_known(inner, replaced):
            new = replaced[inner]
            setattr(owner, name, staticmethod(new) if isinstance(owner, type) else new)


def _is_known(value: Any, replaced: dict[Any, Any]) -> bool:
    try:
        return value in replaced
    except TypeError:  # not hashable
        return False


def placed(call: Callable[[], Any], *given: Any) -> Any:
    """What *call* gives; its errors name files as the script does.

    Args:
        given: names by which the script called them.
    """
    try:
        return call()
    except OSError as error:
        names = {os.path.abspath(os.fsdecode(name)): name for name in given}
        for name in ("filename", "filename2"):
            text = getattr(error, name)
            if isinstance(text, str):
                text = text.removeprefix(ALIAS)
                setattr(error, name, names.get(text, text))
        raise


def _asked(
    files: PrivateFiles, given: Any, *, reads: bool = False, follow: bool = True
) -> tuple[FileView, str] | None:
    """The view and the path in it, where the real file is not meant anyway.

    Args:
        reads: nothing is changed.
    """
    if isinstance(given, int):
        return None
    view = files.view()
    if view is None or (reads and view.is_plain):
        return None
    path = files.path(given, follow=follow)
    return None if path is None else (view, path)


def _open(files: PrivateFiles) -> Any:
    original = io.open

    @functools.wraps(original)
    def open(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        opener = kwargs.get("opener") or (args[5] if len(args) > 5 else None)
        reads = not isinstance(mode, str) or not set(mode) & set("wax+")
        asked = None if opener is not None else _asked(files, file, reads=reads)
        if asked is None:
            return original(file, mode, *args, **kwargs)
        view, path = asked

        def opened(place: str) -> Any:
            if place == path:
                return original(file if view.folder is None else path, mode, *args, **kwargs)
            result: Any = original(place, mode, *args, **kwargs)
            inner = getattr(result, "buffer", result)
            getattr(inner, "raw", inner).name = os.fspath(file)
            return result

        if reads:
            return placed(lambda: view.at(path, opened, undo=lambda one: one.close()), file)
        change: Change = "append" if "a" in mode else "overwrite"
        if "w" in mode and not view.leads:
            change = "replace"
        place = placed(lambda: changes.to_write(view, path, change, exclusive="x" in mode), file)
        if "r" in mode and view.found(path) is None:
            raise missing(os.fspath(file))
        return placed(lambda: opened(place), file)

    return open


def _os_open(files: PrivateFiles) -> Any:
    original = os.open

    @functools.wraps(original)
    def os_open(path: Any, flags: int, mode: int = 0o777, *, dir_fd: Any = None) -> int:
        asked = None if dir_fd is not None or flags & os.O_PATH else _asked(files, path)
        if asked is None:
            return original(path, flags, mode, dir_fd=dir_fd)
        view, name = asked
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            return original(path, flags, mode)
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC):
            if not flags & os.O_CREAT and not view.exists(name):
                raise missing(os.fspath(path))
            change: Change = "append" if flags & os.O_APPEND else "overwrite"
            exclusive = bool(flags & os.O_EXCL and flags & os.O_CREAT)
            place = placed(lambda: changes.to_write(view, name, change, exclusive=exclusive), path)
            return int(placed(lambda: original(place, flags, mode), path))
        opened = placed(
            lambda: view.at(name, lambda place: original(place, flags, mode), undo=real.close), path
        )
        return int(opened)

    return os_open


def _reading(files: PrivateFiles, name: str) -> Any:
    original = getattr(os, name)

    @functools.wraps(original)
    def call(path: Any, *args: Any, **kwargs: Any) -> Any:
        follow = name not in _NO_FOLLOWING and kwargs.get("follow_symlinks", True)
        with_fd = kwargs.get("dir_fd") is not None
        asked = None if with_fd else _asked(files, path, reads=True, follow=follow)
        if asked is None:
            return original(path, *args, **kwargs)
        view, wanted = asked

        def answer(place: str) -> Any:
            if place == wanted:
                return original(path if view.folder is None else wanted, *args, **kwargs)
            if wanted in view.held and name == "lstat":
                return real.stat(place)
            return original(place, *args, **kwargs)

        try:
            return placed(lambda: view.at(wanted, answer), path)
        except FileNotFoundError:
            if name == "access":
                return False
            raise

    return call


def _attributes(files: PrivateFiles, name: str) -> Any:
    original = getattr(os, name)

    @functools.wraps(original)
    def call(path: Any, *args: Any, **kwargs: Any) -> Any:
        with_fd = kwargs.get("dir_fd") is not None
        asked = None if with_fd else _asked(files, path, follow=name not in _NO_FOLLOWING)
        if asked is None:
            return original(path, *args, **kwargs)
        view, wanted = asked
        place = placed(lambda: changes.of_attributes(view, wanted), path)
        if place is None:
            return None
        return placed(lambda: original(path if place == wanted else place, *args, **kwargs), path)

    return call


def _one(files: PrivateFiles, name: str, change: Any) -> Any:
    original = getattr(os, name)

    @functools.wraps(original)
    def call(path: Any, *args: Any, **kwargs: Any) -> Any:
        with_fd = kwargs.get("dir_fd") is not None
        asked = None if with_fd else _asked(files, path, follow=name == "chdir")
        if asked is None:
            return original(path, *args, **kwargs)
        placed(lambda: change(*asked, original), path)

    return call


def _making(files: PrivateFiles) -> Any:
    original = os.mkdir

    @functools.wraps(original)
    def mkdir(path: Any, mode: int = 0o777, *, dir_fd: Any = None) -> None:
        asked = None if dir_fd is not None else _asked(files, path)
        if asked is None:
            return original(path, mode, dir_fd=dir_fd)
        return placed(
            lambda: changes.make_folder(*asked, lambda place: original(place, mode)), path
        )

    return mkdir


def _two(files: PrivateFiles, name: str, change: Any) -> Any:
    original = getattr(os, name)

    @functools.wraps(original)
    def call(source: Any, target: Any, *args: Any, **kwargs: Any) -> None:
        with_fd = any(kwargs.get(f"{end}_dir_fd") is not None for end in ("src", "dst"))
        first = None if with_fd else _asked(files, source, follow=False)
        second = None if first is None else _asked(files, target, follow=False)
        if first is None or second is None:
            return original(_place(files, source), _place(files, target), *args, **kwargs)
        view = first[0]
        return placed(lambda: change(view, first[1], second[1], original), source, target)

    return call


def _place(files: PrivateFiles, given: Any) -> Any:
    """The place of a file that is moved between what all ranks see and what this one does."""
    asked = _asked(files, given)
    if asked is None or asked[0].leads:
        return given
    place = asked[0].place(asked[1])
    if place is not None and place != asked[1]:
        return place
    return changes.to_write(*asked, "replace")


def _symlink(files: PrivateFiles) -> Any:
    original = os.symlink

    @functools.wraps(original)
    def symlink(src: Any, dst: Any, *args: Any, **kwargs: Any) -> None:
        asked = None if kwargs.get("dir_fd") is not None else _asked(files, dst, follow=False)
        if asked is None:
            return original(src, dst, *args, **kwargs)
        view, path = asked
        return placed(lambda: changes.symlink(view, os.fsdecode(src), path, original), src, dst)

    return symlink


def _truncate(files: PrivateFiles) -> Any:
    original = os.truncate

    @functools.wraps(original)
    def truncate(path: Any, length: int) -> None:
        asked = _asked(files, path)
        if asked is None:
            return original(path, length)
        if not asked[0].exists(asked[1]):
            raise missing(os.fspath(path))
        return original(changes.to_write(*asked, "overwrite"), length)

    return truncate


def _listdir(files: PrivateFiles) -> Any:
    original = os.listdir

    @functools.wraps(original)
    def listdir(path: Any = ".") -> Any:
        asked = None if isinstance(path, bytes) or path is None else _asked(files, path)
        if asked is None:
            return original(path)
        view, folder = asked
        if not view.is_touched(folder):
            listed = original(path if view.folder is None else folder)
            if view.leads or not view.is_touched(folder):
                return listed
        return placed(lambda: view.names(folder), path)

    return listdir


def _scandir(files: PrivateFiles) -> Any:
    original = os.scandir

    @functools.wraps(original)
    def scandir(path: Any = ".") -> Any:
        asked = None if isinstance(path, bytes) or path is None else _asked(files, path)
        if asked is None:
            return original(path)
        view, folder = asked
        if not view.is_touched(folder):
            scanned = original(path if view.folder is None else folder)
            if view.leads:
                return scanned
            entries = list(scanned)
            if not view.is_touched(folder):
                return _Scan(iter(entries))
        names = placed(lambda: view.names(folder), path)
        return _Scan(ViewedEntry(os.fspath(path), name) for name in names)

    return scandir


def _getcwd(files: PrivateFiles) -> Any:
    original = os.getcwd

    @functools.wraps(original)
    def getcwd() -> str:
        view = files.view()
        return original() if view is None or view.folder is None else view.folder

    return getcwd


class ViewedEntry:
    """What ``os.DirEntry`` is, of a view."""

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
