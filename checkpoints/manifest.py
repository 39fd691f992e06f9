"""Manifest of a file: JSON text, one line for the file and one for each array.

The lines are in the order of the arrays in the file, which follow one another without gaps, so
no line needs the offset of its array. A reader needs only the manifest, never the HDF5 metadata,
which repeat it for `h5ls` and h5py: the HDF5 library crashes on crafted metadata (1.14.6, a
segmentation fault in about one of thirty mutations of a group of more than eight members with
its checksums corrected), while text can be checked line by line.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from checkpoints.dtypes import FOREIGN, NATIVE, storage_dtype

FORMAT = "named arrays of a training run"
VERSION = 1

#: Sections in the order of the file; the description is an attribute of the section's group.
SECTIONS = {
    "weights": "variables of the model, by path",
    "optimizer": "variables of the optimizer, by path",
    "cursor": "where training stands",
    "extra": "other arrays, such as the states of metrics",
}

ARCHITECTURE = "architecture"
#: Dtype name of the architecture: bytes of UTF-8; its shape is their number.
TEXT = "text"

#: Above the length of any line: the longest name, 32 extents, and the line about the software.
MAX_LINE_BYTES = 16_384


class MalformedManifest(Exception):
    """The text is not a manifest of this version. The reader adds the path."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Description of one array; `crc32` is the checksum of its bytes in the file."""

    section: str
    name: str
    dtype: str
    shape: tuple[int, ...]
    crc32: int

    @property
    def storage(self) -> np.dtype[Any]:
        return np.dtype(np.uint8) if self.dtype == TEXT else storage_dtype(self.dtype)

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.storage.itemsize


def content_digest(entries: Iterable[Entry]) -> str:
    """BLAKE2b digest of 256 bits, in hex; equal for equal states, whenever and wherever saved."""
    return hashlib.blake2b(_lines(map(asdict, entries)), digest_size=32).hexdigest()


def render_manifest(entries: Sequence[Entry], *, created: str, software: str) -> bytes:
    """Manifest of the entries: architecture first, then in the order of the sections."""
    head = {
        "format": FORMAT,
        "format_version": VERSION,
        "created": created,
        "software": software,
        "content": content_digest(entries),
    }
    return _lines([head, *map(asdict, entries)])


def parse_manifest(text: bytes) -> list[Entry]:
    """Entries of a manifest: architecture first, then by section; names are unique in a section.

    Raises:
        MalformedManifest: the text is not a valid manifest; the message is the reason.
    """
    if not text.endswith(b"\n"):
        raise MalformedManifest("its manifest does not end with a line")
    first, *rest = text[:-1].split(b"\n")
    head = _object(first)
    if head.get("format") != FORMAT:
        raise MalformedManifest(f"format={head.get('format')!r:.60} where {FORMAT!r} is known")
    if head.get("format_version") != VERSION:
        version = f"{head.get('format_version')!r:.20}"
        raise MalformedManifest(f"format_version={version} where {VERSION} is known")
    entries = [_entry(_object(line)) for line in rest]
    _check_order(entries)
    if head.get("content") != content_digest(entries):
        raise MalformedManifest("its entries do not match their digest")
    return entries


def _lines(rows: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(row, separators=(",", ":")).encode() + b"\n" for row in rows)


def _object(line: bytes) -> dict[str, Any]:
    if len(line) > MAX_LINE_BYTES:
        raise MalformedManifest("a line of its manifest is too long")
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise MalformedManifest("a line of its manifest is not JSON") from error
    if not isinstance(value, dict):
        raise MalformedManifest("a line of its manifest is not an object")
    return value


def _entry(row: dict[str, Any]) -> Entry:
    if set(row) != {"section", "name", "dtype", "shape", "crc32"}:
        raise MalformedManifest("an entry has other fields")
    section, name, dtype, shape = row["section"], row["name"], row["dtype"], row["shape"]
    if not all(isinstance(value, str) for value in (section, name, dtype)):
        raise MalformedManifest("an entry is not named by text")
    what = f"{section}[{name!r}]"[:200]
    if (dtype == TEXT) != (section == ARCHITECTURE):
        raise MalformedManifest(f"{what} is text in the wrong place")
    if dtype != TEXT and dtype not in NATIVE and dtype not in FOREIGN:
        raise MalformedManifest(f"{what} has the unknown dtype {dtype!r:.60}")
    if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
        raise MalformedManifest(f"{what} has a malformed shape")
    if type(row["crc32"]) is not int:
        raise MalformedManifest(f"{what} has a malformed crc32")
    entry = Entry(section=section, name=name, dtype=dtype, shape=tuple(shape), crc32=row["crc32"])
    # NumPy requires this for empty arrays, too.
    if math.prod(size or 1 for size in shape) * entry.storage.itemsize >= 2**63:
        raise MalformedManifest(f"{what} has a shape beyond any memory")
    if dtype == TEXT and len(shape) != 1:
        raise MalformedManifest(f"{what} has a malformed shape")
    return entry


def _check_order(entries: list[Entry]) -> None:
    order = (ARCHITECTURE, *SECTIONS)
    for entry in entries:
        if entry.section not in order:
            raise MalformedManifest(f"it has the unknown section {entry.section!r:.60}")
    places = [order.index(entry.section) for entry in entries]
    if places != sorted(places) or places.count(0) != 1:
        raise MalformedManifest("its sections are not one architecture and then the others")
    if len({(entry.section, entry.name) for entry in entries}) != len(entries):
        raise MalformedManifest("two of its entries have one name")
