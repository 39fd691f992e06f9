"""The objects of pandas, PyTables and netCDF in HDF5 that are none of the user's values."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import h5py
import numpy as np

__all__ = ["Role", "attribute", "role"]

_LABELS = re.compile(r"axis\d.*|block\d+_items.*|index(_\w+)?")
_NO_VARIABLE = "This is a netCDF dimension but not a netCDF variable"
_SHOWN = 20


class Role(NamedTuple):
    """Purpose of a child of a group; *hidden* if it is no data of the user."""

    words: str
    hidden: bool


def attribute(item: Any, name: str) -> str:
    """Text attribute of a group or a data set; "" if it has none of that name."""
    try:
        value = item.attrs.get(name, "")
    except (OSError, TypeError, ValueError):  # of a type that NumPy does not have
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else ""


def role(group: h5py.Group, name: str, child: Any) -> Role | None:
    """The role of the *child* of *group* called *name*, None for the user's own."""
    if isinstance(child, h5py.Group):
        if attribute(child, "CLASS") == "TINDEX":
            return Role("an index that PyTables made, passed over", True)
        return None
    if not isinstance(child, h5py.Dataset):
        return None
    if attribute(child, "NAME").startswith(_NO_VARIABLE):
        return Role("a dimension without values, passed over", True)
    return _of_pandas(group, name, child) if attribute(group, "pandas_type") else None


def _of_pandas(group: h5py.Group, name: str, child: Any) -> Role | None:
    if name == "table":
        return Role(
            f"a table of pandas with {len(child)} rows, stored by records, passed over; "
            f"give fit pandas.read_hdf(path, {group.name!r}).to_numpy()",
            True,
        )
    if _LABELS.fullmatch(name):
        return Role("row and column labels of pandas, passed over", True)
    if "shape" in child.attrs:  # pandas stores one value where there are none
        return Role("a part of pandas without values, passed over", True)
    if attribute(child, "PSEUDOATOM") == "object":
        return Role("Python objects that pandas pickled, passed over", True)
    words = [*_columns(group, name), *_meaning(child)]
    return Role(", ".join(words), False) if words else None


def _columns(group: h5py.Group, name: str) -> list[str]:
    items = group.get(name.replace("_values", "_items")) if name.startswith("block") else None
    if not isinstance(items, h5py.Dataset) or items.dtype.kind not in "SiufO" or items.ndim != 1:
        return []
    named = [x.decode("utf-8", "replace") if isinstance(x, bytes) else str(x) for x in items[:]]
    more = [f"and {len(named) - _SHOWN} more"] if len(named) > _SHOWN else []
    return [f"columns {', '.join([*named[:_SHOWN], *more])}"]


def _meaning(child: h5py.Dataset) -> list[str]:
    kind = attribute(child, "value_type")
    if not kind.startswith(("datetime", "timedelta")):
        return []
    return [f"{kind} as integers ({np.iinfo(np.int64).min} stands for none)"]
