"""TensorFlow's file library, the basis of ``tf.io.gfile``, redirected to this rank's view.

Every function of it calls the one module that :class:`FileLibrary` stands for.
"""

from __future__ import annotations

import glob
import inspect
import os
import shutil
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from matex.files import changes, real
from matex.files.given_names import with_given_names
from matex.files.interface import Files
from matex.files.scratch import ALIAS
from matex.files.view import FileView
from matex.files.writing import to_write

__all__ = ["NOWHERE", "FileLibrary", "local_path"]

#: A path that does not exist, so that TensorFlow raises its own error.
NOWHERE = f"{ALIAS}/proc/there is no such file"

_HIDDEN = "include_hidden" in inspect.signature(glob.glob).parameters


def local_path(files: Files, given: Any) -> str | None:
    """Path in the view; None for a path of another file system."""
    text = os.fsdecode(given)
    if text.startswith("file://"):
        text = text[len("file://") :]
    return None if "://" in text else files.path(text)


class FileLibrary:
    """TensorFlow's library of file functions, asked through the view."""

    def __init__(self, files: Files, inner: Any) -> None:
        self._files = files
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def _viewed_path(self, given: Any, *, reads: bool = False) -> tuple[FileView, str] | None:
        view = self._files.view()
        if view is None or (reads and view.is_plain):
            return None
        path = local_path(self._files, given)
        return None if path is None else (view, path)

    def _read(self, name: str, given: Any, *args: Any) -> Any:
        found = self._viewed_path(given, reads=True)
        if found is None:
            return getattr(self._inner, name)(given, *args)
        view, path = found
        call = getattr(self._inner, name)
        try:
            return view.at(
                path,
                lambda place: call(given if place == path else place, *args),
                errors=tf.errors.OpError,
            )
        except FileNotFoundError:
            return call(NOWHERE, *args)

    def FileExists(self, path: Any) -> Any:
        return self._read("FileExists", path)

    def IsDirectory(self, path: Any) -> Any:
        return self._read("IsDirectory", path)

    def Stat(self, path: Any) -> Any:
        return self._read("Stat", path)

    def ReadFileToString(self, path: Any) -> Any:
        return self._read("ReadFileToString", path)

    def HasAtomicMove(self, path: Any) -> Any:
        return self._read("HasAtomicMove", path)

    def BufferedInputStream(self, path: Any, *args: Any) -> Any:
        return self._read("BufferedInputStream", path, *args)

    def _written(self, given: Any, mode: str = "w") -> Any:
        found = self._viewed_path(given)
        if found is None:
            return given
        view, path = found
        change: Any = "append" if "a" in mode else "overwrite" if view.leads else "replace"
        try:
            place = with_given_names(lambda: to_write(view, path, change))
        except FileNotFoundError:
            return f"{NOWHERE}/file"
        return given if place == path else place

    def WritableFile(self, path: Any, mode: Any) -> Any:
        return self._inner.WritableFile(self._written(path, os.fsdecode(mode)), mode)

    def WriteStringToFile(self, path: Any, content: Any) -> Any:
        return self._inner.WriteStringToFile(self._written(path), content)

    def DeleteFile(self, path: Any) -> Any:
        self._change(path, changes.remove, "DeleteFile")

    def CreateDir(self, path: Any) -> Any:
        found = self._viewed_path(path)
        if found is not None and found[0].exists(found[1]):
            return self._inner.CreateDir("/")  # which says that it is there
        self._change(path, changes.make_folder, "CreateDir")

    def _change(self, given: Any, change: Callable[..., Any], name: str) -> None:
        call = getattr(self._inner, name)
        found = self._viewed_path(given)
        if found is None:
            call(given)
            return
        view, path = found
        try:
            change(view, path, call)
        except FileNotFoundError:
            call(f"{NOWHERE}/file")  # which raises TensorFlow's error

    def RecursivelyCreateDir(self, path: Any) -> Any:
        found = self._viewed_path(path)
        if found is None or found[0].exists(found[1]):
            return self._read("RecursivelyCreateDir", path)
        return os.makedirs(found[1], exist_ok=True)

    def CopyFile(self, source: Any, target: Any, overwrite: bool) -> Any:
        found = self._viewed_path(target)
        if found is not None and not overwrite and found[0].exists(found[1]):
            raise tf.errors.AlreadyExistsError(None, None, "file already exists")
        first = self._viewed_path(source, reads=True)
        place = source if first is None else first[0].found(first[1]) or NOWHERE
        if found is not None and not found[0].leads and os.path.exists(os.fsdecode(place)):
            return real.copy(os.fsdecode(place), os.fsdecode(self._written(target)))
        return self._inner.CopyFile(place, self._written(target), overwrite)

    def RenameFile(self, source: Any, target: Any, overwrite: bool) -> Any:
        first, second = self._viewed_path(source), self._viewed_path(target)
        if first is None or second is None:
            return self._inner.RenameFile(source, target, overwrite)
        if not overwrite and second[0].exists(second[1]):
            raise tf.errors.AlreadyExistsError(None, None, "file already exists")
        if not first[0].exists(first[1]):
            return self._inner.RenameFile(NOWHERE, target, overwrite)
        return changes.rename(first[0], first[1], second[1], real.replace)

    def DeleteRecursively(self, path: Any) -> Any:
        found = self._viewed_path(path)
        if found is None:
            return self._inner.DeleteRecursively(path)
        if not found[0].isdir(found[1]):
            return self._inner.DeleteRecursively(NOWHERE)
        return shutil.rmtree(found[1])

    def GetChildren(self, path: Any) -> Any:
        found = self._viewed_path(path)
        if found is None or not found[0].isdir(found[1]):
            return self._read("GetChildren", path)
        return os.listdir(found[1])

    def GetMatchingFiles(self, pattern: Any) -> Any:
        view = self._files.view()
        text = os.fsdecode(pattern)
        if view is None or (view.is_plain and not view.changes.folders) or "://" in text:
            return self._inner.GetMatchingFiles(pattern)
        return sorted(glob.glob(text, include_hidden=True) if _HIDDEN else glob.glob(text))
