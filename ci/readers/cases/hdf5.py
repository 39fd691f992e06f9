"""HDF5 by h5py: how data sets are stored."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from h5py import h5d, h5p, h5s, h5t, h5z

from ci.readers.cases.case import Case, Close
from ci.readers.cases.walk import everything

__all__ = ["CASES", "ROWS", "hdf5"]

_DICE = np.random.default_rng(0)
#: Shape (24, 5), float64.
ROWS = _DICE.normal(size=(24, 5))
_COUNTS = _DICE.integers(0, 1000, (24, 5))


def hdf5(
    name: str, fill: Callable[[Any], Any], *, word: str = "", file: str = "data.h5", **how: Any
) -> Case:
    """A case in which *fill* writes into a new file, made by ``h5py.File(path, "w", **how)``."""

    def write(path: Path) -> None:
        with h5py.File(path, "w", **how) as opened:
            fill(opened)

    return Case(name, file, write, everything, word)


def _set(name: str, values: Any = ROWS, *, word: str = "", **how: Any) -> Case:
    """A case of one data set, made by ``create_dataset``."""
    return hdf5(name, lambda file: file.create_dataset("x", data=values, **how), word=word)


def _low(
    file: Any, values: np.ndarray, prepare: Callable[[Any], Any], kind: Any = h5t.IEEE_F64LE
) -> None:
    """A data set with creation properties that h5py has no words for."""
    properties = h5p.create(h5p.DATASET_CREATE)
    prepare(properties)
    space = h5s.create_simple(values.shape)
    made = h5d.create(file.id, b"x", kind, space, dcpl=properties)
    made.write(h5s.ALL, h5s.ALL, values)


def _compact(file: Any) -> None:
    _low(file, ROWS, lambda properties: properties.set_layout(h5d.COMPACT))


def _late(file: Any) -> None:
    """Contiguous, with a fill value, and never written."""
    file.create_dataset("x", (24, 5), "f4", fillvalue=7.5)
    file["y"] = np.arange(24)


def _some_chunks(file: Any) -> None:
    made = file.create_dataset("x", (40, 5), "i4", chunks=(4, 5), fillvalue=-3)
    made[8:12] = 5


def _grown(file: Any) -> None:
    made = file.create_dataset("x", (10, 5), "f8", maxshape=(None, 5), chunks=(7, 5))
    made[:] = ROWS[:10]
    made.resize(24, axis=0)
    made[10:] = ROWS[10:]


def _unknown_filter(flags: int) -> Callable[[Path], None]:
    """A chunk that claims to be packed by a filter that nobody has.

    HDF5 writes none such, so the chunk goes in as it is, past the filters.
    """

    def write(path: Path) -> None:
        with h5py.File(path, "w") as file:
            properties = h5p.create(h5p.DATASET_CREATE)
            properties.set_chunk((24, 5))
            properties.set_filter(305, h5z.FLAG_OPTIONAL, (1, 2))
            space = h5s.create_simple(ROWS.shape)
            made = h5d.create(file.id, b"x", h5t.IEEE_F64LE, space, dcpl=properties)
            mask = 1 if flags == h5z.FLAG_OPTIONAL else 0
            made.write_direct_chunk((0, 0), ROWS.tobytes(), filter_mask=mask)

    return write


def _user_block(path: Path) -> None:
    with h5py.File(path, "w", userblock_size=2048) as file:
        file["x"] = ROWS
    with path.open("r+b") as raw:
        raw.write(b"#!/bin/sh\n" * 100)


_WRITER = """
import sys, h5py, numpy
with h5py.File(sys.argv[1], "w", libver=sys.argv[2]) as file:
    made = file.create_dataset("x", (24, 5), "f8", chunks=(6, 5), maxshape=(None, 5))
    made[:] = numpy.arange(120.0).reshape(24, 5)
    if sys.argv[2] == "latest":
        file.swmr_mode = True
    file.flush()
    print("written", flush=True)
    sys.stdin.read()
"""


def _open_elsewhere(version: str) -> Callable[[Path], Close]:
    def write(path: Path) -> Close:
        child = subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(path), version],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert child.stdout is not None
        assert child.stdout.readline() == b"written\n"

        def close() -> None:
            child.communicate()

        return close

    return write


def _external(offset: int, present: bool) -> Callable[[Path], None]:
    """Values in a raw file beside it, or in one that is gone."""

    def write(path: Path) -> None:
        raw = path.with_name("values.raw")
        with h5py.File(path, "w") as file:
            file.create_dataset("x", (24, 5), "f8", external=[(str(raw), offset, 960)])[:] = ROWS
            file["y"] = np.arange(24)
        if not present:
            raw.unlink()

    return write


def _virtual(path: Path) -> None:
    for part in range(2):
        with h5py.File(path.with_name(f"part{part}.h5"), "w") as file:
            file["x"] = ROWS[12 * part : 12 * part + 12]
    layout = h5py.VirtualLayout((24, 5), "f8")
    for part in range(2):
        layout[12 * part : 12 * part + 12] = h5py.VirtualSource(
            str(path.with_name(f"part{part}.h5")), "x", (12, 5)
        )
    with h5py.File(path, "w") as file:
        file.create_virtual_dataset("x", layout)


def _virtual_missing(path: Path) -> None:
    _virtual(path)
    path.with_name("part1.h5").unlink()


def _virtual_inside(file: Any) -> None:
    file["all"] = ROWS
    layout = h5py.VirtualLayout((12, 5), "f8")
    layout[:] = h5py.VirtualSource(file["all"])[::2]
    file.create_virtual_dataset("x", layout)


def _cut(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(4096.0)
    path.write_bytes(path.read_bytes()[:9000])


CASES = [
    _set("contiguous"),
    _set("contiguous float32", ROWS.astype("f4")),
    _set("one column", ROWS[:, 0]),
    _set("five axes", np.arange(2 * 3 * 4 * 5 * 6).reshape(2, 3, 4, 5, 6)),
    _set("chunked", chunks=(7, 3)),
    _set("chunked along all axes", np.arange(4096.0).reshape(16, 16, 16), chunks=(3, 5, 7)),
    _set("chunks larger than a column", ROWS, chunks=(24, 1)),
    _set("gzip", chunks=(5, 5), compression="gzip"),
    _set("gzip 9 and shuffle", chunks=(5, 5), compression="gzip", compression_opts=9, shuffle=True),
    _set("lzf", chunks=(5, 5), compression="lzf"),
    _set("fletcher32", chunks=(5, 5), fletcher32=True),
    _set("gzip, shuffle and fletcher32", chunks=(5, 5), compression="gzip", shuffle=True,
         fletcher32=True),
    _set("scale-offset of integers", _COUNTS, chunks=(5, 5), scaleoffset=0),
    _set("scale-offset of floats", np.round(ROWS, 3), chunks=(5, 5), scaleoffset=3),
    hdf5("nbit", lambda file: _low(
        file, _COUNTS.astype("i8"),
        lambda properties: (
            properties.set_chunk((5, 5)), properties.set_filter(h5z.FILTER_NBIT)),
        h5t.STD_I64LE)),
    hdf5("compact", _compact),
    hdf5("early allocation", lambda file: _low(
        file, ROWS, lambda properties: properties.set_alloc_time(h5d.ALLOC_TIME_EARLY))),
    hdf5("never written, with a fill value", _late),
    hdf5("some chunks never written", _some_chunks),
    hdf5("resized", _grown),
    hdf5("unlimited along two axes", lambda file: file.create_dataset(
        "x", data=ROWS, maxshape=(None, None))),
    hdf5("unlimited, still empty", lambda file: (
        file.create_dataset("x", (0, 5), maxshape=(None, 5)), file.create_dataset("y", data=ROWS))),
    Case("an absent filter, which one chunk did without", "data.h5",
         _unknown_filter(h5z.FLAG_OPTIONAL), everything, "filter"),
    Case("an absent filter", "data.h5", _unknown_filter(h5z.FLAG_MANDATORY),
         everything, "filter"),
    Case("a user block with a script", "data.h5", _user_block, everything),
    hdf5("a user block of zeros", lambda file: file.create_dataset("x", data=ROWS),
         userblock_size=512),
    hdf5("libver latest", lambda file: file.create_dataset("x", data=ROWS), libver="latest"),
    hdf5("libver latest, chunked", lambda file: file.create_dataset("x", data=ROWS, chunks=(5, 5)),
         libver="latest"),
    hdf5("libver latest, unlimited", lambda file: file.create_dataset(
        "x", data=ROWS, chunks=(5, 5), maxshape=(None, None)), libver="latest"),
    hdf5("libver v108", lambda file: file.create_dataset("x", data=ROWS), libver=("v108", "v108")),
    hdf5("paged", lambda file: file.create_dataset("x", data=ROWS), fs_strategy="page"),
    hdf5("scalar beside rows", lambda file: (
        file.create_dataset("n", data=3.0), file.create_dataset("x", data=ROWS))),
    hdf5("empty beside rows", lambda file: (
        file.create_dataset("n", data=h5py.Empty("f8")), file.create_dataset("x", data=ROWS))),
    hdf5("rows of no values", lambda file: (
        file.create_dataset("n", (24, 0)), file.create_dataset("x", data=ROWS))),
    hdf5("scalars only", lambda file: file.create_dataset("n", data=3.0), word="row"),
    hdf5("groups only", lambda file: file.create_group("a/b"), word="data set"),
    Case("open for writing elsewhere", "data.h5", _open_elsewhere("earliest"), everything,
         "writ|consist"),
    Case("open for writing elsewhere, SWMR", "data.h5", _open_elsewhere("latest"),
         lambda path: everything(path, swmr=True), "writ|consist"),
    Case("external raw values", "data.h5", _external(0, True), everything, "extern|raw"),
    Case("external raw values, at an offset", "data.h5", _external(64, True), everything,
         "extern|raw"),
    Case("external raw values, gone", "data.h5", _external(0, False),
         everything, "values.raw|extern"),
    Case("virtual over two files", "data.h5", _virtual, everything),
    Case("virtual, one file gone", "data.h5", _virtual_missing, lambda path: {"x": None},
         "part1|source|virtual"),
    hdf5("virtual over the same file", _virtual_inside),
    Case("cut short", "data.h5", _cut, word="trunc|short"),
    hdf5("named .keras", lambda file: file.create_dataset("x", data=ROWS), file="data.keras"),
    hdf5("named without a suffix", lambda file: file.create_dataset("x", data=ROWS), file="data"),
    hdf5("named as netCDF", lambda file: file.create_dataset("x", data=ROWS), file="data.nc"),
    hdf5("named as CSV", lambda file: file.create_dataset("x", data=ROWS), file="data.csv",
         word="HDF5"),
]  # fmt: skip
