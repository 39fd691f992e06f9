"""HDF5 metadata of a snapshot file, which refer to arrays that are written separately.

::

    /                    format, format_version, created, software, content
    /manifest            text of `manifest`, a fixed-length UTF-8 string
    /architecture        model as JSON text, a fixed-length UTF-8 string
    /weights/...         variables of the model
    /optimizer/...       variables of the optimizer
    /cursor/...          position of training, int64 scalars
    /extra/...           other arrays

Every array is a contiguous data set with the attributes `dtype` (its name in `dtypes`),
`position` (its index in its section, from 0) and `crc32` (checksum of its bytes in the file).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import h5py
import numpy as np
from h5py import h5a, h5d, h5g, h5p, h5s, h5t

from checkpoints.image import MetadataImage
from checkpoints.seal import SIZE

Attributes = Mapping[str, str | int]


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """A data set to create: path, shape and NumPy type; type None for text of `nbytes` bytes."""

    path: str
    nbytes: int
    dtype: np.dtype[Any] | None = None
    shape: tuple[int, ...] = ()
    attributes: Attributes = field(default_factory=dict)


def metadata_of(
    sets: Sequence[DataSet], *, root: Attributes, groups: Mapping[str, Attributes]
) -> memoryview:
    """Bytes from 512 on of a file in which the arrays of *sets* follow, in order, without gaps.

    Args:
        sets: all data sets; intermediate groups are created.
        root: attributes of the root; text of at most 64 kB, or integers of 32 bits unsigned.
        groups: groups below the root, with their attributes.

    Raises:
        RuntimeError: this release of the HDF5 library uses another file layout.
    """
    image = MetadataImage()
    # 1.8 is the oldest format with checksummed metadata; every newer h5ls reads it.
    with h5py.File(image, "w", libver=("v108", "v108"), userblock_size=SIZE) as file:
        _write_attributes(file.id, root)
        for name, attributes in groups.items():
            _write_attributes(h5g.create(file.id, name.encode()), attributes)
        made = [_create(file.id, dataset) for dataset in sets]
        # Storage is allocated at the first write to a data set, so the metadata written so far
        # precede all arrays.
        file.flush()
        start = image.limit = image.end
        offsets = [_allocate(*pair) for pair in zip(made, sets, strict=True)]
    wanted = list(accumulate((dataset.nbytes for dataset in sets), initial=start))
    found = [at if at is not None else ok for at, ok in zip(offsets, wanted, strict=False)]
    within = all(end <= wanted[bisect_right(wanted, first)] for first, end in image.dropped)
    if found != wanted[:-1] or image.end != wanted[-1] or not within:
        raise RuntimeError(
            "HDF5 metadata before all arrays and no gaps were wanted. "
            f"Received: another layout from hdf5={h5py.version.hdf5_version}. "
            "Install a release of h5py that this package was tested with."
        )
    return memoryview(image.data.ljust(start, b"\0"))[SIZE:start]


def _create(file: h5g.GroupID, wanted: DataSet) -> h5d.DatasetID:
    creation = h5p.create(h5p.DATASET_CREATE)
    creation.set_layout(h5d.CONTIGUOUS)
    creation.set_alloc_time(h5d.ALLOC_TIME_LATE)
    creation.set_fill_time(h5d.FILL_TIME_NEVER)
    creation.set_obj_track_times(False)
    links = h5p.create(h5p.LINK_CREATE)
    links.set_create_intermediate_group(True)
    links.set_char_encoding(h5t.CSET_UTF8)
    if wanted.dtype is None:
        kind = _text_type(wanted.nbytes)
    else:
        kind = h5t.py_create(wanted.dtype, logical=True)
    space = h5s.create_simple(wanted.shape) if wanted.shape else h5s.create(h5s.SCALAR)
    dataset = h5d.create(file, wanted.path.encode(), kind, space, creation, links)
    _write_attributes(dataset, wanted.attributes)
    return dataset


def _allocate(dataset: h5d.DatasetID, wanted: DataSet) -> int | None:
    """Make HDF5 allocate a data set by writing one element, which the image drops."""
    if wanted.nbytes == 0:
        return None
    chosen = dataset.get_space()
    if wanted.shape:
        chosen.select_hyperslab((0,) * len(wanted.shape), (1,) * len(wanted.shape))
    kind = dataset.get_type()
    dataset.write(h5s.create(h5s.SCALAR), chosen, np.zeros((), kind.dtype), kind)
    offset: int = dataset.get_offset()
    return offset


def _write_attributes(owner: Any, attributes: Attributes) -> None:
    for name, value in attributes.items():
        if isinstance(value, str):
            kind = _text_type(len(value.encode()))
            data = np.array(value.encode(), f"S{kind.get_size()}")
        else:
            kind = h5t.STD_U32LE
            data = np.array(value, "<u4")
        h5a.create(owner, name.encode(), kind, h5s.create(h5s.SCALAR)).write(data, kind)


def _text_type(nbytes: int) -> h5t.TypeStringID:
    kind = h5t.C_S1.copy()
    kind.set_size(max(nbytes, 1))
    kind.set_strpad(h5t.STR_NULLPAD)
    kind.set_cset(h5t.CSET_UTF8)
    return kind
