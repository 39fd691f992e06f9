"""Libraries with their own ways of opening files: HDF5 in C, NumPy by a stored function."""

from __future__ import annotations

import functools
import io
import os
import sys
from typing import Any

import h5py

from matex.files import databases
from matex.files.given_names import with_given_names
from matex.files.held_files import keep_whole
from matex.files.interface import Files
from matex.files.ledger import Change
from matex.files.view import missing
from matex.files.writing import to_write
from matex.replacing import replace

__all__ = ["install"]


def install(files: Files) -> None:
    """Replace these functions for the rest of the process; after Python's own. Local."""
    _in_h5py(files)
    databases.install(files)
    openers = getattr(sys.modules.get("numpy.lib._datasource"), "_file_openers", None)
    if openers is not None:  # what savetxt and loadtxt open a plain file with
        openers._file_openers[None] = io.open


def _in_h5py(files: Files) -> None:
    original = h5py.File.__init__

    @functools.wraps(original)
    def init(self: Any, name: Any, mode: str = "r", *args: Any, **kwargs: Any) -> None:
        view = files.view()
        is_path = isinstance(name, str | bytes | os.PathLike)
        path = files.path(name) if view is not None and is_path else None
        if view is None or path is None:
            original(self, name, mode, *args, **kwargs)
            return

        def opened(place: str) -> None:
            original(self, name if place == path else place, mode, *args, **kwargs)

        def read(place: str) -> None:
            keep_whole(view, path)
            opened(place)

        if mode == "r":
            with_given_names(lambda: view.at(path, read, undo=lambda _: self.close()), name)
            return
        if mode == "r+" and not view.exists(path):
            raise missing(os.fsdecode(name))
        replaced = mode in ("w", "w-", "x") and not view.leads
        change: Change = "replace" if replaced else "overwrite"
        exclusive = mode in ("w-", "x")
        opened(with_given_names(lambda: to_write(view, path, change, exclusive=exclusive), name))

    replace(h5py.File, "__init__", init)
