"""Functions of ``os`` on one or two paths, redirected to this rank's view."""

from __future__ import annotations

import functools
import inspect
import os
from typing import Any

from matex.files import changes, real
from matex.files.given_names import viewed_path, with_given_names
from matex.files.interface import Files
from matex.files.view import missing
from matex.files.writing import to_write

__all__ = ["attributes", "making", "one_path", "reading", "symlink", "truncate", "two_paths"]

_NO_FOLLOWING = ("lstat", "readlink", "lchown")


def reading(files: Files, name: str) -> Any:
    original = getattr(os, name)

    @functools.wraps(original)
    def call(path: Any, *args: Any, **kwargs: Any) -> Any:
        follow = name not in _NO_FOLLOWING and kwargs.get("follow_symlinks", True)
        with_fd = kwargs.get("dir_fd") is not None
        found = None if with_fd else viewed_path(files, path, reads=True, follow=follow)
        if found is None:
            return original(path, *args, **kwargs)
        view, wanted = found

        def answer(place: str) -> Any:
            if place == wanted:
                return original(path if view.folder is None else wanted, *args, **kwargs)
            if wanted in view.changes.kept_open and name == "lstat":
                return real.stat(place)
            return original(place, *args, **kwargs)

        try:
            return with_given_names(lambda: view.at(wanted, answer), path)
        except FileNotFoundError:
            if name == "access":
                return False
            raise

    return call


def attributes(files: Files, name: str) -> Any:
    original = getattr(os, name)

    @functools.wraps(original)
    def call(path: Any, *args: Any, **kwargs: Any) -> Any:
        with_fd = kwargs.get("dir_fd") is not None
        found = None if with_fd else viewed_path(files, path, follow=name not in _NO_FOLLOWING)
        if found is None:
            return original(path, *args, **kwargs)
        view, wanted = found
        place = with_given_names(lambda: changes.of_attributes(view, wanted), path)
        if place is None:
            return None
        return with_given_names(
            lambda: original(path if place == wanted else place, *args, **kwargs), path
        )

    return call


def one_path(files: Files, name: str, change: Any) -> Any:
    original = getattr(os, name)

    @functools.wraps(original)
    def call(path: Any, *args: Any, **kwargs: Any) -> Any:
        with_fd = kwargs.get("dir_fd") is not None
        found = None if with_fd else viewed_path(files, path, follow=name == "chdir")
        if found is None:
            return original(path, *args, **kwargs)
        with_given_names(lambda: change(*found, original), path)

    return call


def making(files: Files, name: str, change: Any) -> Any:
    original = getattr(os, name)
    usual = inspect.signature(original).parameters["mode"].default

    @functools.wraps(original)
    def make(path: Any, mode: int = usual, *, dir_fd: Any = None) -> None:
        found = None if dir_fd is not None else viewed_path(files, path)
        if found is None:
            return original(path, mode, dir_fd=dir_fd)
        with_given_names(lambda: change(*found, lambda place: original(place, mode)), path)
        return None

    return make


def two_paths(files: Files, name: str, change: Any) -> Any:
    original = getattr(os, name)

    @functools.wraps(original)
    def call(source: Any, target: Any, *args: Any, **kwargs: Any) -> None:
        with_fd = any(kwargs.get(f"{end}_dir_fd") is not None for end in ("src", "dst"))
        first = None if with_fd else viewed_path(files, source, follow=False)
        second = None if first is None else viewed_path(files, target, follow=False)
        if first is None or second is None:
            return original(_place(files, source), _place(files, target), *args, **kwargs)
        view = first[0]
        return with_given_names(lambda: change(view, first[1], second[1], original), source, target)

    return call


def _place(files: Files, given: Any) -> Any:
    """Place of a file that is moved between common paths and this rank's own."""
    found = viewed_path(files, given)
    if found is None or found[0].leads:
        return given
    place = found[0].place(found[1])
    if place is not None and place != found[1]:
        return place
    return to_write(*found, "replace")


def symlink(files: Files) -> Any:
    original = os.symlink

    @functools.wraps(original)
    def symlink(src: Any, dst: Any, *args: Any, **kwargs: Any) -> None:
        found = None if kwargs.get("dir_fd") is not None else viewed_path(files, dst, follow=False)
        if found is None:
            return original(src, dst, *args, **kwargs)
        view, path = found
        return with_given_names(
            lambda: changes.symlink(view, os.fsdecode(src), path, original), src, dst
        )

    return symlink


def truncate(files: Files) -> Any:
    original = os.truncate

    @functools.wraps(original)
    def truncate(path: Any, length: int) -> None:
        found = viewed_path(files, path)
        if found is None:
            return original(path, length)
        if not found[0].exists(found[1]):
            raise missing(os.fspath(path))
        return original(to_write(*found, "overwrite"), length)

    return truncate
