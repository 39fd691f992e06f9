"""HDF5 by pandas (HDFStore) and by PyTables itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import tables

from ci.readers.cases.case import Case
from ci.readers.cases.hdf5 import ROWS
from ci.readers.cases.walk import everything

__all__ = ["CASES"]

_FRAME = pd.DataFrame(ROWS, columns=list("abcde"))
_MIXED = pd.DataFrame({"a": np.arange(24), "b": ROWS[:, 0], "name": ["x", "yz"] * 12})


def _fixed(path: Path) -> None:
    _FRAME.to_hdf(path, key="frame", format="fixed")


def _fixed_values(path: Path) -> dict[str, Any]:
    """Members as h5py reads them, whose values are those of pandas."""
    frame = pd.read_hdf(path, "frame")
    return {**everything(path), "frame/block0_values": np.asarray(frame)}


def _store(frame: Any, **how: Any) -> Any:
    def write(path: Path) -> None:
        frame.to_hdf(path, key="frame", **how)

    return write


def _appended(path: Path) -> None:
    with pd.HDFStore(path, "w") as store:
        for part in (_FRAME[:10], _FRAME[10:]):
            store.append("frame", part)


def _array(kind: str, **how: Any) -> Any:
    def write(path: Path) -> None:
        with tables.open_file(path, "w") as file:
            if kind == "EArray":
                rows = file.create_earray("/", "x", tables.Float64Atom(), (0, 5), **how)
                rows.append(ROWS[:10])
                rows.append(ROWS[10:])
            else:
                make = file.create_carray if kind == "CArray" else file.create_array
                make("/", "x", obj=ROWS, **how)

    return write


def _times(path: Path) -> None:
    with tables.open_file(path, "w") as file:
        file.create_array("/", "y", obj=np.arange(24))
        rows = file.create_earray("/", "x", tables.Time64Atom(), (0,))
        rows.append(np.arange(24) + 1.5e9)


_ZLIB = tables.Filters(complevel=5, complib="zlib", shuffle=True, fletcher32=True)
_BLOSC = tables.Filters(complevel=5, complib="blosc")

CASES = [
    Case("HDFStore, fixed", "data.h5", _fixed, _fixed_values, "labels of pandas"),
    Case("HDFStore, fixed, with words", "data.h5", _store(_MIXED), everything,
         "labels of pandas"),
    Case("HDFStore, fixed, of int8 and bool", "data.h5",
         _store(pd.DataFrame({"a": np.arange(24, dtype="i1"), "b": np.arange(24) > 3})),
         everything, "labels of pandas"),
    Case("HDFStore, a series", "data.h5", _store(_FRAME["a"]), everything, "labels of pandas"),
    Case("HDFStore, table", "data.h5", _store(_FRAME, format="table", index=False), everything,
         "number|compound"),
    Case("HDFStore, table with an index", "data.h5", _store(_FRAME, format="table"), everything,
         "table of pandas"),
    Case("HDFStore, appended", "data.h5", _appended, everything, "table of pandas"),
    Case("HDFStore, fixed, zlib", "data.h5", _store(_FRAME, complib="zlib", complevel=9),
         everything, "labels of pandas"),
    Case("HDFStore, fixed, blosc", "data.h5", _store(_FRAME, complib="blosc", complevel=9),
         everything, "filter|blosc|labels of pandas"),
    Case("PyTables Array", "data.h5", _array("Array"), everything),
    Case("PyTables CArray, zlib", "data.h5", _array("CArray", filters=_ZLIB), everything),
    Case("PyTables CArray, blosc", "data.h5", _array("CArray", filters=_BLOSC),
         everything, "filter|blosc"),
    Case("PyTables EArray", "data.h5", _array("EArray"), everything),
    Case("PyTables times", "data.h5", _times, everything, "number|type|time"),
]  # fmt: skip
