"""All named members of an HDF5 file as h5py reads them, through all links."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py

__all__ = ["everything"]


def everything(path: Path, *, swmr: bool = False) -> dict[str, Any]:
    """Values by full name; None for what is no rows of numbers, or cannot be read here.

    Links that lead nowhere are not in.
    A group that holds itself is entered once on each way.
    """
    found: dict[str, Any] = {}
    with h5py.File(path, "r", locking=False, swmr=swmr) as file:
        _enter(file, "", [file], found)
    return found


def _enter(group: Any, prefix: str, above: list[Any], found: dict[str, Any]) -> None:
    for name in group:
        try:
            item = group[name]
        except (KeyError, OSError, RuntimeError):  # a link to what is not there, or to itself
            continue
        if isinstance(item, h5py.Group):
            if item not in above:
                _enter(item, f"{prefix}{name}/", [*above, item], found)
        elif isinstance(item, h5py.Dataset):
            found[f"{prefix}{name}"] = _values(item)


def _values(item: Any) -> Any:
    try:
        kind = item.dtype.kind
    except TypeError:  # a type that NumPy has not
        return None
    if kind not in "fiub" or not item.shape or not item.shape[0]:
        return None
    try:
        return item[...]
    except OSError:  # packed by a filter that is not here, or in a file that is gone
        return None
