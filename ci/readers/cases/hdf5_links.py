"""HDF5 by h5py: under what names the data sets are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ci.readers.cases.case import Case
from ci.readers.cases.hdf5 import ROWS, hdf5
from ci.readers.cases.walk import everything

__all__ = ["CASES"]


def _soft(file: Any) -> None:
    file["group/x"] = ROWS
    file["easy"] = h5py.SoftLink("/group/x")


def _soft_group(file: Any) -> None:
    file["group/x"] = ROWS
    file["other"] = h5py.SoftLink("/group")


def _hard(file: Any) -> None:
    file["group/x"] = ROWS
    file["again"] = file["group/x"]


def _hard_group(file: Any) -> None:
    file["group/x"] = ROWS
    file["again"] = file["group"]


def _external(group: bool, present: bool = True) -> Any:
    def write(path: Path) -> None:
        other = path.with_name("other.h5")
        with h5py.File(other, "w") as file:
            file["group/x"] = ROWS
        with h5py.File(path, "w") as file:
            file["y"] = np.arange(24)
            file["far"] = h5py.ExternalLink("other.h5", "/group" if group else "/group/x")
        if not present:
            other.unlink()

    return write


def _dangling(file: Any) -> None:
    file["x"] = ROWS
    file["nowhere"] = h5py.SoftLink("/gone")


def _cycle(file: Any) -> None:
    file["group/x"] = ROWS
    file["group/self"] = file["group"]


def _soft_cycle(file: Any) -> None:
    file["group/x"] = ROWS
    file["group/up"] = h5py.SoftLink("/")


def _to_itself(file: Any) -> None:
    file["x"] = ROWS
    file["loop"] = h5py.SoftLink("/loop")


def _many(file: Any) -> None:
    for number in range(300):
        file[f"series/{number:03d}"] = np.arange(3) + number


def _ordered(file: Any) -> None:
    for name in ("z", "a", "m"):
        file[name] = ROWS


def _deep(file: Any) -> None:
    file["/".join("abcdefghij" * 3) + "/x"] = ROWS


def _aside(file: Any) -> Any:
    return {"far": None, "y": np.arange(24)}


def _attributes(file: Any) -> None:
    file["x"] = ROWS
    for number in range(100):  # so many are stored densely
        file["x"].attrs[f"a{number}"] = np.arange(20)


def _latin(path: Path) -> None:
    """A name that is no UTF-8, as older programs wrote."""
    with h5py.File(path, "w") as file:
        file["y"] = np.arange(24)
        file.create_dataset("débit".encode("latin1"), data=ROWS)


def _latin_read(path: Path) -> Any:
    """Read it by the name that Python gives a file so written."""
    return {"d\udce9bit": ROWS, "y": np.arange(24)}


CASES = [
    hdf5("a soft link", _soft, word="link"),
    hdf5("a soft link to a group", _soft_group, word="link|same group"),
    hdf5("a second hard link", _hard, word="link|same|group/x"),
    hdf5("a second hard link to a group", _hard_group, word="link|same|group"),
    Case("an external link", "data.h5", _external(False), everything, "link|file"),
    Case("an external link to a group", "data.h5", _external(True), everything, "link|file"),
    Case("an external link, the file gone", "data.h5", _external(False, False), _aside,
         "link|other.h5"),
    hdf5("a dangling link", _dangling, word="link|gone"),
    hdf5("a group that holds itself", _cycle, word="link|same"),
    hdf5("a soft link to the root", _soft_cycle, word="link"),
    hdf5("a soft link to itself", _to_itself, word="link"),
    hdf5("300 data sets in a group", _many),
    hdf5("order of creation", _ordered, track_order=True),
    hdf5("order of creation, libver latest", _ordered, track_order=True, libver="latest"),
    hdf5("30 groups deep", _deep),
    hdf5("names with dots and spaces", lambda file: file.create_dataset("a. b/c.d e", data=ROWS)),
    hdf5("unicode names", lambda file: file.create_dataset("größe/日本", data=ROWS)),
    Case("a name in Latin-1", "data.h5", _latin, _latin_read, "name|UTF"),
    hdf5("members named as methods", lambda file: (
        file.create_dataset("close", data=ROWS), file.create_dataset("keys", data=ROWS),
        file.create_dataset("path", data=ROWS), file.create_dataset("_private", data=ROWS))),
    hdf5("an unnamed data set beside", lambda file: (
        file.create_dataset(None, data=ROWS), file.create_dataset("x", data=ROWS))),
    hdf5("many attributes", _attributes),
    hdf5("many attributes, libver latest", _attributes, libver="latest"),
]  # fmt: skip
