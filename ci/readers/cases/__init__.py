"""The files of ci/readers/table.py, by format; a new one is a line in the module of its format."""

from __future__ import annotations

from ci.readers.cases import (
    binary,
    hdf5,
    hdf5_links,
    hdf5_types,
    images,
    netcdf,
    netcdf_classic,
    pandas_store,
    text,
    tfrecord,
)
from ci.readers.cases.case import Case

__all__ = ["GROUPS", "Case"]

GROUPS: dict[str, list[Case]] = {
    "hdf5": hdf5.CASES,
    "hdf5 types": hdf5_types.CASES,
    "hdf5 links": hdf5_links.CASES,
    "pandas": pandas_store.CASES,
    "netcdf": netcdf.CASES,
    "netcdf classic": netcdf_classic.CASES,
    "text": text.CASES,
    "tfrecord": tfrecord.CASES,
    "images": images.CASES,
    "idx and cifar": binary.CASES,
}
