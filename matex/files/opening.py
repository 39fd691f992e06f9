"""``open`` and ``os.open``, redirected to this rank's view."""

from __future__ import annotations

import functools
import io
import os
from typing import Any

from matex.files import real
from matex.files.given_names import viewed_path, with_given_names
from matex.files.interface import Files
from matex.files.ledger import Change
from matex.files.view import missing
from matex.files.writing import to_write

__all__ = ["builtin_open", "os_open"]


def builtin_open(files: Files) -> Any:
    original = io.open

    @functools.wraps(original)
    def open(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        opener = kwargs.get("opener") or (args[5] if len(args) > 5 else None)
        reads = not isinstance(mode, str) or not set(mode) & set("wax+")
        found = None if opener is not None else viewed_path(files, file, reads=reads)
        if found is None:
            return original(file, mode, *args, **kwargs)
        view, path = found

        def opened(place: str) -> Any:
            if place == path:
                return original(file if view.folder is None else path, mode, *args, **kwargs)
            result: Any = original(place, mode, *args, **kwargs)
            inner = getattr(result, "buffer", result)
            getattr(inner, "raw", inner).name = os.fspath(file)
            return result

        if reads:
            return with_given_names(
                lambda: view.at(path, opened, undo=lambda one: one.close()), file
            )
        change: Change = "append" if "a" in mode else "overwrite"
        if "w" in mode and not view.leads:
            change = "replace"
        place = with_given_names(lambda: to_write(view, path, change, exclusive="x" in mode), file)
        if "r" in mode and view.found(path) is None:
            raise missing(os.fspath(file))
        result = with_given_names(lambda: opened(place), file)
        view.writers.add(result)
        return result

    return open


def os_open(files: Files) -> Any:
    original = os.open

    @functools.wraps(original)
    def os_open(path: Any, flags: int, mode: int = 0o777, *, dir_fd: Any = None) -> int:
        found = None if dir_fd is not None or flags & os.O_PATH else viewed_path(files, path)
        if found is None:
            return original(path, flags, mode, dir_fd=dir_fd)
        view, name = found
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            return original(path, flags, mode)
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC):
            if not flags & os.O_CREAT and not view.exists(name):
                raise missing(os.fspath(path))
            change: Change = "append" if flags & os.O_APPEND else "overwrite"
            exclusive = bool(flags & os.O_EXCL and flags & os.O_CREAT)
            place = with_given_names(
                lambda: to_write(view, name, change, exclusive=exclusive), path
            )
            return int(with_given_names(lambda: original(place, flags, mode), path))
        opened = with_given_names(
            lambda: view.at(name, lambda place: original(place, flags, mode), undo=real.close), path
        )
        return int(opened)

    return os_open
