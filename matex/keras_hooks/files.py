"""Keras's functions that write, fetch or list files, replaced at all places in Keras."""

from __future__ import annotations

import functools
import inspect
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from keras.src.backend import config
from keras.src.saving import saving_api
from keras.src.utils import (
    audio_dataset_utils,
    file_utils,
    image_dataset_utils,
    text_dataset_utils,
)

from matex.replacing import replace_everywhere

__all__ = ["cache_folder", "replace_file_functions"]

#: Takes the original, its arguments by name, and calls it.
Around = Callable[[Callable[..., Any], dict[str, Any]], Any]

_FUNCTIONS = {
    "save": ((saving_api, "save_model"), (saving_api, "save_weights")),
    "fetch": ((file_utils, "get_file"),),
    "directory": ((file_utils, "makedirs"),),
    "folder": (
        (image_dataset_utils, "image_dataset_from_directory"),
        (text_dataset_utils, "text_dataset_from_directory"),
        (audio_dataset_utils, "audio_dataset_from_directory"),
    ),
}


def replace_file_functions(around: Mapping[str, Around]) -> None:
    """Call *around* in place of the functions that save ("save"), download ("fetch"), make a
    directory ("directory") and make data sets of folders ("folder"), for the rest of the process.
    Local.
    """
    functions: dict[Any, Any] = {}
    for kind, places in _FUNCTIONS.items():
        for module, name in places:
            original = getattr(module, name)
            functions[original] = _replacement(original, around[kind])
    replace_everywhere("keras", functions)


def _replacement(original: Callable[..., Any], around: Around) -> Callable[..., Any]:
    signature = inspect.signature(original)
    rest = next((p.name for p in signature.parameters.values() if p.kind == p.VAR_KEYWORD), "")

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            return original(*args, **kwargs)  # which raises the proper error
        bound.apply_defaults()
        given = dict(bound.arguments)
        given.update(given.pop(rest, {}))
        return around(original, given)

    return call


def cache_folder(given: Mapping[str, Any]) -> Path:
    """Folder in which ``get_file`` with the arguments *given* stores its file."""
    base = os.path.expanduser(given["cache_dir"] or config.keras_home())  # noqa: PTH111 - as Keras
    if not os.access(base, os.W_OK):
        tmp = Path("/tmp")
        base = str((tmp if tmp.is_dir() else Path(tempfile.gettempdir())) / ".keras")
    return Path(base) / given["cache_subdir"]
