"""Python's file functions, replaced by ones that use this rank's view.

Functions built on them follow: ``os.path``, ``pathlib``, ``glob``, ``shutil``, ``zipfile``, NumPy's
``save`` and ``load``, pickles, pictures, tables.
"""

from __future__ import annotations

import builtins
import io
import os
import shutil
import sys
from typing import Any

from matex.files import changes, folder_calls, opening, path_calls, temporary, trees
from matex.files.interface import Files
from matex.replacing import replace

__all__ = ["install"]

# Standard modules that keep a function under a name of their own.
_KEEPERS = ("pathlib", "glob", "tarfile", "bz2", "zipfile", "shutil", "tokenize", "fileinput")

_READING = ("stat", "lstat", "access", "listxattr", "getxattr", "statvfs", "pathconf", "readlink")
_ATTRIBUTES = ("chmod", "chown", "lchown", "utime", "setxattr", "removexattr")


def install(files: Files) -> None:
    """Replace the functions for the rest of the process. Local.

    They stay replaced when the script ends: its writes at exit are those of one rank, too.
    """
    replaced: dict[Any, Any] = {io.open: opening.builtin_open(files)}
    for name in _READING:
        replaced[getattr(os, name)] = path_calls.reading(files, name)
    for name in _ATTRIBUTES:
        replaced[getattr(os, name)] = path_calls.attributes(files, name)
    replaced |= {
        os.open: opening.os_open(files),
        os.mkdir: path_calls.making(files, "mkdir", changes.make_folder),
        os.mkfifo: path_calls.making(files, "mkfifo", changes.make_pipe),
        os.remove: path_calls.one_path(files, "remove", changes.remove),
        os.unlink: path_calls.one_path(files, "unlink", changes.remove),
        os.rmdir: path_calls.one_path(files, "rmdir", changes.remove_folder),
        os.rename: path_calls.two_paths(files, "rename", changes.rename),
        os.replace: path_calls.two_paths(files, "replace", changes.rename),
        os.link: path_calls.two_paths(files, "link", changes.link),
        os.symlink: path_calls.symlink(files),
        os.truncate: path_calls.truncate(files),
        os.listdir: folder_calls.listdir(files),
        os.scandir: folder_calls.scandir(files),
        os.chdir: path_calls.one_path(files, "chdir", changes.change_folder),
        os.getcwd: folder_calls.getcwd(files),
    }
    for name, value in list(vars(os).items()):
        if callable(value) and value in replaced:
            replace(os, name, replaced[value])
    own_open = replaced[io.open]
    replace(builtins, "open", own_open)
    replace(io, "open", own_open)
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in _KEEPERS:
            _replace_in(vars(module), module, replaced)
    _imported_by(sys.modules["_frozen_importlib_external"])
    replace(shutil, "_use_fd_functions", False)  # rmtree by names, which are ours
    for known in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
        known.update(replaced[f] for f in list(known) if f in replaced)
    temporary.install(files)
    trees.install(files)


class _CodeFiles:
    """The module that imports open files with, by the function that is replaced."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def open_code(self, path: str) -> Any:
        return open(path, "rb")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def _imported_by(importer: Any) -> None:
    """Let the import system find and read modules that the script writes, in this rank's view."""
    replace(importer, "_os", os)
    replace(importer, "_io", _CodeFiles(importer._io))


def _replace_in(names: Any, owner: Any, replaced: dict[Any, Any]) -> None:
    for name, value in list(names.items()):
        inner = value.__func__ if isinstance(value, staticmethod) else value
        if isinstance(value, type) and value.__module__.partition(".")[0] in _KEEPERS:
            if owner is not value:
                _replace_in(vars(value), value, replaced)
        elif callable(inner) and _is_known(inner, replaced):
            new = replaced[inner]
            replace(owner, name, staticmethod(new) if isinstance(owner, type) else new)


def _is_known(value: Any, replaced: dict[Any, Any]) -> bool:
    try:
        return value in replaced
    except TypeError:  # not hashable
        return False
