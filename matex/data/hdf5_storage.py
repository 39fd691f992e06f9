"""Obstacles to reading an HDF5 data set, detected before any value is read.

libhdf5 looks for a filter when it reads the first chunk compressed by it, and returns the fill
value for data in a missing file: numbers that were never stored.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
from h5py import h5d, h5s, h5z

from matex.data.hdf5_heap import endless_heap
from matex.data.hdf5_types import described, memory_type

__all__ = ["gaps", "obstacle", "packing"]

_FILTERS = {
    h5z.FILTER_DEFLATE: "gzip", h5z.FILTER_SZIP: "szip", h5z.FILTER_NBIT: "n-bit",
    h5z.FILTER_SCALEOFFSET: "scale-offset", 305: "LZO", 307: "bzip2",
    32000: "lzf", 32001: "Blosc", 32004: "LZ4", 32008: "bitshuffle",
    32013: "ZFP", 32015: "Zstandard", 32017: "SZ", 32018: "FCIDECOMP",
    32024: "SZ3", 32026: "Blosc2", 32028: "SPERR",
}  # fmt: skip
_Trail = tuple[tuple[str, str], ...]


def obstacle(dataset: h5py.Dataset, *, trail: _Trail = ()) -> str | None:
    """Reason for which the values of *dataset* cannot be read as written; None if they can.

    Args:
        trail: file and name of the virtual data sets that *dataset* is a source of.
    """
    stored = dataset.id.get_type()
    if memory_type(stored) is None:
        return described(stored)
    if dataset.is_virtual:
        return _missing_source(dataset, trail)
    return _missing_filter(dataset) or _missing_bytes(dataset)


def gaps(dataset: h5py.Dataset) -> str | None:
    """Description of the values of *dataset* that were never written; None if there are none.

    They read as the fill value of the data set.
    """
    if dataset.is_virtual:
        mapped = [source.vspace for source in dataset.virtual_sources()]
        if any(_grows(space) for space in mapped):
            return None
        left = dataset.size - sum(space.get_select_npoints() for space in mapped)
        which = f"{left} of {dataset.size} values have no source" if left > 0 else ""
    else:
        status = dataset.id.get_space_status()
        which = {
            h5d.SPACE_STATUS_NOT_ALLOCATED: "never written",
            h5d.SPACE_STATUS_PART_ALLOCATED: "some chunks were never written",
        }.get(status, "")
    return f"{which}: read as the fill value {_fill(dataset)}" if which else None


def _fill(dataset: h5py.Dataset) -> str:
    dtype = memory_type(dataset.id.get_type())
    fill = np.zeros((), dtype)
    dataset.id.get_create_plist().get_fill_value(fill)
    return str(fill)


def packing(dataset: h5py.Dataset) -> str:
    """Names of the compression filters of *dataset*; "" if there are none."""
    same_size = (h5z.FILTER_SHUFFLE, h5z.FILTER_FLETCHER32)
    return ", ".join(name for code, name in _filters(dataset) if code not in same_size)


def _filters(dataset: h5py.Dataset) -> Iterator[tuple[int, str]]:
    made = dataset.id.get_create_plist()
    for number in range(made.get_nfilters()):
        code, _, _, name = made.get_filter(number)
        stored = name.decode("utf-8", "replace").split(";")[0].strip()
        yield code, _FILTERS.get(code) or stored or "without a name"


def _missing_filter(dataset: h5py.Dataset) -> str | None:
    for code, name in _filters(dataset):
        if not h5z.filter_avail(code):
            return (
                f"packed by the filter {name} ({code}), which is not installed; install hdf5plugin "
                f"and import it first (for matex commands set HDF5_PLUGIN_PATH to the folder of "
                f"its plugins), or write it without this filter"
            )
    return None


def _missing_bytes(dataset: h5py.Dataset) -> str | None:
    """Whether the files of raw values beside an HDF5 file lack some."""
    made = dataset.id.get_create_plist()
    left = dataset.size * dataset.id.get_type().get_size() if dataset.shape else 0
    folder = dataset.id.get_access_plist().get_efile_prefix().decode()
    for number in range(made.get_external_count()):
        name, offset, size = made.get_external(number)
        path = Path(folder) / name.decode()
        wanted = min(left, size)
        left -= wanted
        if not path.is_file():
            return (
                f"its values are in {path}, which is not there; put it there, or, if it is beside "
                f"the HDF5 file, set HDF5_EXTFILE_PREFIX='${{ORIGIN}}'"
            )
        if path.stat().st_size < offset + wanted:
            return (
                f"its values are in {path}, which must have {offset + wanted} bytes and has "
                f"{path.stat().st_size}; copy it again"
            )
    return None


# ---------------------------------------------------------------- virtual data sets


def _missing_source(dataset: h5py.Dataset, trail: _Trail) -> str | None:
    """Description of a missing source of a virtual data set; None if all can be read."""
    here = (dataset.file.filename, dataset.name)
    if here in trail:
        return "a virtual data set that is among its own sources"
    try:
        _ = dataset.shape
    except (OSError, RuntimeError) as error:  # it depends on sources that are named by number
        return f"a virtual data set whose sources cannot be opened ({error})"
    tried: dict[tuple[str, str], str | None] = {}
    for source in dataset.virtual_sources():
        for file_name, name in _names(dataset, source):
            key = (file_name, name)
            if key not in tried:
                tried[key] = _wrong_source(dataset, key, source, (*trail, here))
            if tried[key]:
                return f"a virtual data set whose source {name} in {file_name} {tried[key]}"
    return None


def _wrong_source(
    dataset: h5py.Dataset, key: tuple[str, str], source: h5py.VDSmap, trail: _Trail
) -> str | None:
    file_name, name = key
    if file_name == ".":
        return _wrong_part(dataset.file, name, source, trail)
    path = _source_file(dataset, file_name)
    if path is None:
        return "is not there; copy the files of its sources too"
    try:
        if endless_heap(path) is not None:
            return "cannot be opened (a heap in it comes to no end: it is damaged)"
        with h5py.File(path, "r", locking=False) as file:
            return _wrong_part(file, name, source, trail)
    except (OSError, RuntimeError) as error:
        return f"cannot be opened ({error})"


def _wrong_part(file: h5py.File, name: str, source: h5py.VDSmap, trail: _Trail) -> str | None:
    found = file.get(name)
    if not isinstance(found, h5py.Dataset):
        return "is not there"
    why = obstacle(found, trail=trail)
    if why is not None:
        return f"cannot be read ({why})"
    if not _fits(found.shape, source):
        return f"has the shape {found.shape}, which does not fit"
    return None


def _source_file(dataset: h5py.Dataset, name: str) -> Path | None:
    """Path at which libhdf5 finds the file *name* (see H5Pset_virtual in its reference)."""
    here = Path(dataset.file.filename).absolute()
    return next((path for path in _places(dataset, here, name) if path.is_file()), None)


def _places(dataset: h5py.Dataset, here: Path, name: str) -> Iterator[Path]:
    if Path(name).is_absolute():
        yield Path(name)
        name = Path(name).name
    prefix = dataset.id.get_access_plist().get_virtual_prefix().decode()
    if prefix:
        yield Path(prefix) / name
    yield here.parent / name
    yield Path(name).absolute()
    yield here.resolve().parent / name


def _fits(shape: tuple[int, ...], source: h5py.VDSmap) -> bool:
    space = source.src_space
    if _grows(source.vspace) or _grows(space):
        return True  # takes the available part
    if space.get_select_type() == h5s.SEL_ALL:
        return math.prod(shape) == source.vspace.get_select_npoints()
    _, last = space.get_select_bounds()
    return len(last) == len(shape) and all(i < n for i, n in zip(last, shape, strict=True))


def _grows(space: h5s.SpaceID) -> bool:
    if space.get_select_type() != h5s.SEL_HYPERSLABS or not space.is_regular_hyperslab():
        return False
    _, _, count, block = space.get_regular_hyperslab()
    return h5s.UNLIMITED in (*count, *block)


def _names(dataset: h5py.Dataset, source: h5py.VDSmap) -> Iterator[tuple[str, str]]:
    """File and name of each source: %b in one of them stands for the numbers from 0 on."""
    file_name, name = source.file_name, source.dset_name
    if not _grows(source.vspace) or _grows(source.src_space):
        yield _numbered(file_name, None), _numbered(name, None)
        return
    start, stride, count, block = source.vspace.get_regular_hyperslab()
    axis = count.index(h5s.UNLIMITED) if h5s.UNLIMITED in count else 0
    length = dataset.shape[axis] - start[axis]
    blocks = max(0, -(-(length - block[axis]) // stride[axis]) + 1)
    # libhdf5 ends the data set at the first that is absent, also where later ones are there.
    blocks = max(1, blocks, 1 + _last_number(dataset, file_name))
    for number in range(blocks):
        yield _numbered(file_name, number), _numbered(name, number)


def _numbered(pattern: str, number: int | None) -> str:
    def put(found: re.Match[str]) -> str:
        if found[0] == "%%":
            return "%"
        return found[0] if number is None else str(number)

    return re.sub(r"%%|%b", put, pattern)


def _last_number(dataset: h5py.Dataset, pattern: str) -> int:
    """Highest number of a file named by *pattern*; -1 if there is none."""
    if "%b" not in pattern.replace("%%", ""):
        return -1
    name = re.compile(r"(\d+)".join(map(re.escape, Path(pattern).name.split("%b"))))
    folders = {path.parent for path in _places(dataset, Path(dataset.file.filename), pattern)}
    found = (
        name.fullmatch(path.name)
        for folder in folders
        if folder.is_dir()
        for path in folder.iterdir()
    )
    return max((int(match[1]) for match in found if match), default=-1)
