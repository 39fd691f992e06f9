"""Places of the files that a tf.data pipeline writes for itself: caches and snapshots.

Their writer goes on from batch to batch in C++, opens, renames and reads its files by name, and
marks an unfinished cache by a lock file. So a rank that does not lead writes in a place of its own
and stays with it, also when it leads later: half of such a file is of no use elsewhere.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from matex.files import real
from matex.files.view import FileView
from matex.files.writing import to_write
from matex.records import console

__all__ = ["CHECKPOINT_DATA", "cache_place", "snapshot_place"]

#: Ending of the values of a checkpoint, and of a cache, beside its .index.
CHECKPOINT_DATA = ".data-00000-of-00001"
_LOCK = "_0.lockfile"


def cache_place(view: FileView, path: str) -> str:
    """Prefix for the cache *path*: of the complete one, or of one that this rank writes.

    The leader's becomes *path* itself, unless an unfinished cache is there.
    """
    if path in view.succession.lasting:
        return view.succession.lasting[path]
    index = view.place(f"{path}.index")
    if index is not None and index.endswith(f"{path}.index"):
        return index.removesuffix(".index")
    if view.leads and not real.lexists(path + _LOCK):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        view.claim(f"{path}_temp", "overwrite", tree=True)  # a folder that is there for a moment
        names = (f"{path}.index", f"{path}{CHECKPOINT_DATA}")
        return to_write(view, path, "overwrite", names=names)
    if view.leads:
        print(
            f"matex: {path}{_LOCK} is of a run that died while it wrote this cache, or of another "
            "that writes it now: this run caches in temporary files; delete it after the former",
            file=console.own("stdout"), flush=True,
        )  # fmt: skip
    view.succession.lasting[path] = view.scratch.new_name()
    return view.succession.lasting[path]


def snapshot_place(view: FileView, path: str) -> str:
    """Folder for the snapshot *path*: on a rank that does not lead a copy with its content."""
    if path in view.succession.lasting:
        return view.succession.lasting[path]
    if view.leads:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        return to_write(view, path, "overwrite", tree=True)
    there, place = view.place(path), view.scratch.new_name()
    if there is not None and real.isdir(there):
        with real.direct():
            shutil.copytree(there, place)
    view.succession.lasting[path] = place
    return place
