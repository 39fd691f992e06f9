"""Helpers of the replaced functions: the view of their rank, the script's names in errors."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from matex.files.interface import Files
from matex.files.scratch import ALIAS
from matex.files.view import FileView

__all__ = ["asked", "placed"]


def placed(call: Callable[[], Any], *given: Any) -> Any:
    """The result of *call*, whose errors name files as the script does.

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


def asked(
    files: Files, given: Any, *, reads: bool = False, follow: bool = True
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
