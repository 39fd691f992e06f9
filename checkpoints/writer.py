"""Encoding of a snapshot as buffers, in the order of its file. Touches no disk."""

from __future__ import annotations

import os
import platform
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import h5py
import numpy as np

from checkpoints.dtypes import Array, stored_name, to_storage
from checkpoints.errors import InvalidSnapshot
from checkpoints.hdf5 import DataSet, metadata_of
from checkpoints.manifest import (
    ARCHITECTURE,
    FORMAT,
    SECTIONS,
    TEXT,
    VERSION,
    Entry,
    content_digest,
    render_manifest,
)
from checkpoints.names import link_paths
from checkpoints.seal import make_seal
from checkpoints.snapshot import Snapshot

MAX_SOFTWARE_BYTES = 2048

_MOST_THREADS = 4  # with more, memory bandwidth is the limit


@dataclass(frozen=True, kw_only=True)
class _Part:
    """An array: its manifest entry, its data set, and its bytes (uint8, 1-D)."""

    entry: Entry
    dataset: DataSet
    data: Array


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """Content of a file, as consecutive pieces.

    `head` is the seal, the HDF5 metadata and the manifest, which contains the time; its length is
    equal for equal states. `arrays` is the rest, and `content` the digest of all arrays.
    """

    head: list[memoryview]
    arrays: list[memoryview]
    content: str

    @property
    def pieces(self) -> list[memoryview]:
        return [*self.head, *self.arrays]

    @property
    def head_bytes(self) -> int:
        return sum(map(len, self.head))

    @property
    def nbytes(self) -> int:
        return sum(map(len, self.pieces))


def encode(snapshot: Snapshot, *, software: Mapping[str, str] | None = None) -> Encoded:
    """Content of the file of a snapshot.

    The pieces of arrays are views of the snapshot's own memory (copied only if not C-contiguous or
    not little-endian), so the arrays must not change before they are written.

    Args:
        software: names and versions recorded beside those of Python, NumPy, h5py and HDF5.

    Raises:
        InvalidSnapshot: the text about the software is longer than 2048 bytes.
    """
    parts = [_architecture(snapshot.architecture), *_arrays(snapshot)]
    entries = [part.entry for part in parts]
    content = content_digest(entries)
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    versions = _software_line(software or {})
    manifest = render_manifest(entries, created=created, software=versions)
    metadata = metadata_of(
        [DataSet(path="manifest", nbytes=len(manifest)), *(part.dataset for part in parts)],
        root={
            "format": FORMAT,
            "format_version": VERSION,
            "created": created,
            "software": versions,
            "content": content,
        },
        groups={name: {"description": text} for name, text in SECTIONS.items()},
    )
    seal = make_seal(metadata, manifest, array_bytes=sum(part.data.size for part in parts))
    return Encoded(
        head=[memoryview(seal.block()), metadata, memoryview(manifest)],
        arrays=[part.data.data for part in parts if part.data.size],
        content=content,
    )


def _arrays(snapshot: Snapshot) -> Iterator[_Part]:
    cursor = {name: np.array(value, np.int64) for name, value in snapshot.cursor.items()}
    sections = {
        section: cursor if section == "cursor" else getattr(snapshot, section)
        for section in SECTIONS
    }
    stored_arrays = [to_storage(a) for arrays in sections.values() for a in arrays.values()]
    sums = zip(stored_arrays, _crcs(stored_arrays), strict=True)
    for section, arrays in sections.items():
        paths = dict(zip(arrays, link_paths(arrays), strict=True))
        for position, (name, array) in enumerate(arrays.items()):
            stored, crc32 = next(sums)
            data = _bytes_of(stored)
            entry = Entry(
                section=section,
                name=name,
                dtype=stored_name(array.dtype) or "",
                shape=stored.shape,
                crc32=crc32,
            )
            dataset = DataSet(
                path=f"{section}/{paths[name]}",
                nbytes=data.size,
                dtype=stored.dtype,
                shape=stored.shape,
                attributes={"dtype": entry.dtype, "position": position, "crc32": entry.crc32},
            )
            yield _Part(entry=entry, dataset=dataset, data=data)


def _crcs(arrays: Sequence[Array]) -> list[int]:
    """CRC-32 of each array's bytes, computed by up to four threads."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    with ThreadPoolExecutor(max(1, min(cores, len(arrays), _MOST_THREADS))) as threads:
        return list(threads.map(lambda array: zlib.crc32(_bytes_of(array).data), arrays))


def _bytes_of(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)


def _architecture(text: str) -> _Part:
    # HDF5 has no empty strings: empty text is one NUL.
    data = np.frombuffer(text.encode() or b"\0", np.uint8)
    entry = Entry(
        section=ARCHITECTURE, name="", dtype=TEXT, shape=data.shape, crc32=zlib.crc32(data.data)
    )
    dataset = DataSet(path=ARCHITECTURE, nbytes=data.size, attributes={"crc32": entry.crc32})
    return _Part(entry=entry, dataset=dataset, data=data)


def _software_line(software: Mapping[str, str]) -> str:
    known = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "h5py": h5py.__version__,
        "hdf5": h5py.version.hdf5_version,
    }
    line = ", ".join(f"{name} {version}" for name, version in {**known, **software}.items())
    if len(line.encode()) > MAX_SOFTWARE_BYTES or "\0" in line:
        raise InvalidSnapshot(
            f"at most {MAX_SOFTWARE_BYTES} bytes of text about the software were wanted. "
            f"Received: {len(line.encode())} bytes. Name fewer packages."
        )
    return line
