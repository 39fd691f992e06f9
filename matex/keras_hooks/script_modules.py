"""Modules of the script, told from those of Python, of installed packages and of matex."""

from __future__ import annotations

import functools
import sys
import sysconfig
from pathlib import Path

import numpy as np

__all__ = ["is_script_module"]

_NOT_SCRIPTS = ("matex", "ft", "checkpoints", "builtins", "keras", "tensorflow", "numpy")
_INSTALLED = {"site-packages", "dist-packages"}


def is_script_module(name: str) -> bool:
    """Whether the module *name* is the script, or one beside it."""
    if name.partition(".")[0] in _NOT_SCRIPTS:
        return False
    file = getattr(sys.modules.get(name), "__file__", None)
    return name == "__main__" or (file is not None and not _is_library(file))


@functools.cache
def _is_library(file: str) -> bool:
    """Whether *file* is of Python's own modules, or of an installed package.

    Packages may lie in other environments' folders, or in any folder beside NumPy, as those of
    ``pip install --target`` do.
    """
    paths, beside = sysconfig.get_paths(), Path(np.__file__).parents[1]
    folders = (paths["stdlib"], paths["platstdlib"], str(beside))
    return not _INSTALLED.isdisjoint(Path(file).parts) or file.startswith(folders)
