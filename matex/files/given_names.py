"""Helpers of the replaced functions: the view of the rank, and the script's file names."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from matex.files.interface import Files
from matex.files.scratch import ALIAS
from matex.files.view import FileView

__all__ = ["viewed_path", "with_given_names"]


def with_given_names(call: Callable[[], Any], *given: Any) -> Any:
    """Result of *call*, with the script's file names in its exceptions.

    Args:
        given: the script's names of the files.
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


def viewed_path(
    files: Files, given: Any, *, reads: bool = False, follow: bool = True
) -> tuple[FileView, str] | None:
    """The view and the path in it, unless the real file is meant anyway.

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
