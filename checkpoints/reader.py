"""Reader of snapshot files: checks every byte, executes nothing and follows no link.

The order of the checks matters: seal, length, digest of the index, manifest; memory for arrays
is allocated only if their sizes add up to the length of the file; each array is read straight
into its memory and its CRC compared. The HDF5 library is not used (see `manifest`).
"""

from __future__ import annotations

import errno
import io
import os
import stat
import zlib
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from checkpoints.dtypes import Array, from_storage
from checkpoints.errors import (
    DamagedSnapshot,
    IncompatibleSnapshot,
    NotASnapshot,
    SnapshotNotFound,
    storage_error,
)
from checkpoints.manifest import SECTIONS, TEXT, Entry, MalformedManifest, parse_manifest
from checkpoints.seal import SIZE, parse_seal, resembles
from checkpoints.snapshot import Snapshot

PathLike = str | os.PathLike[str]
Result = TypeVar("Result")


def read_snapshot(path: PathLike) -> Snapshot:
    """Read a snapshot and check every byte of its file. A read-only file system suffices. Local.

    Args:
        path: path of the file.

    Returns:
        The snapshot, with arrays of its own.

    Raises:
        SnapshotNotFound: the file does not exist.
        DamagedSnapshot: the bytes differ from the bytes written, or it is a file of another kind.
        IncompatibleSnapshot: undamaged, but of a newer format or with values that this version
            refuses.
        StorageError: the file cannot be opened or read.

    Example:
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     store = checkpoints.Store(directory)
        ...     path = store.save(checkpoints.Snapshot(weights={}, cursor={"step": 3, "epoch": 1}))
        ...     dict(checkpoints.read_snapshot(path).cursor)
        {'step': 3, 'epoch': 1}
    """
    return _opened(path, lambda file: _read(path, file))


def read_array(path: PathLike, section: str, name: str) -> Array | None:
    """One array, checked, without reading the others; None if there is none of that name.

    Raises the same exceptions as `read_snapshot`.
    """

    def read(file: io.FileIO) -> Array | None:
        entries = _entries(path, file)
        for entry in entries:
            if (entry.section, entry.name) == (section, name):
                return _array(path, entry, _checked_bytes(path, file, entry))
            file.seek(entry.nbytes, os.SEEK_CUR)
        return None

    return _opened(path, read)


def _opened(path: PathLike, read: Callable[[io.FileIO], Result]) -> Result:
    try:
        with open(path, "rb", 0, opener=_opener) as file:
            return read(file)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise SnapshotNotFound(
            f"an existing snapshot was wanted. Received: path={os.fspath(path)!r}. "
            "Check the name of the file."
        ) from error
    except IsADirectoryError as error:
        raise DamagedSnapshot(path, "not a regular file") from error
    except OSError as error:
        if error.errno == errno.EIO:
            raise DamagedSnapshot(path, "the medium cannot give its bytes back") from error
        raise storage_error("a readable snapshot was wanted", path, error) from error


def _opener(path: str, flags: int) -> int:
    # Opening a named pipe must not wait for a writer.
    return os.open(path, flags | os.O_NONBLOCK)


def _read(path: PathLike, file: io.FileIO) -> Snapshot:
    entries = _entries(path, file)
    arrays = [_array(path, entry, _checked_bytes(path, file, entry)) for entry in entries]
    return _snapshot(path, list(zip(entries, arrays, strict=True)))


def _entries(path: PathLike, file: io.FileIO) -> list[Entry]:
    """Check everything before the arrays, and leave the file positioned at the first array."""
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        raise DamagedSnapshot(path, "not a regular file")
    block = _next_bytes(path, file, min(SIZE, status.st_size)).tobytes()
    if block.strip(b"\0") and not resembles(block):
        raise NotASnapshot(path, f"it begins {block[:16]!r}, which no snapshot does")
    if status.st_size < SIZE:
        raise DamagedSnapshot(path, f"only {status.st_size} bytes")
    seal = parse_seal(block)
    if seal is None:
        raise DamagedSnapshot(path, "its first 512 bytes are not those of a snapshot")
    if seal.file_bytes != status.st_size:
        raise DamagedSnapshot(path, f"{status.st_size} of {seal.file_bytes} bytes")
    if not SIZE <= seal.manifest_start <= seal.manifest_end <= status.st_size:
        raise DamagedSnapshot(path, "its manifest lies outside the file")
    index = _next_bytes(path, file, seal.manifest_end - SIZE)
    if seal.digest_of(index.data) != seal.digest:
        raise DamagedSnapshot(path, "its metadata differ from their digest")
    try:
        entries = parse_manifest(index[seal.manifest_start - SIZE :].tobytes())
    except MalformedManifest as error:
        raise IncompatibleSnapshot(path, str(error)) from error
    if seal.manifest_end + sum(entry.nbytes for entry in entries) != status.st_size:
        raise IncompatibleSnapshot(path, "its arrays do not fill the file")
    return entries


def _checked_bytes(path: PathLike, file: io.FileIO, entry: Entry) -> Array:
    data = _next_bytes(path, file, entry.nbytes)
    if zlib.crc32(data.data) != entry.crc32:
        raise DamagedSnapshot(path, f"{entry.section}[{entry.name!r}] differs from its crc32")
    return data


def _next_bytes(path: PathLike, file: io.FileIO, nbytes: int) -> Array:
    data = np.empty(nbytes, np.uint8)
    view, done = data.data, 0
    while done < nbytes:
        count = file.readinto(view[done:])
        if not count:
            raise DamagedSnapshot(path, "it was cut while it was read")
        done += count
    return data


def _array(path: PathLike, entry: Entry, data: Array) -> Array:
    if entry.dtype == TEXT:
        return data
    if entry.dtype == "bool" and data.size and data.max() > 1:
        raise IncompatibleSnapshot(path, f"{entry.section}[{entry.name!r}] is not boolean")
    return from_storage(data.view(entry.storage).reshape(entry.shape), entry.dtype)


def _snapshot(path: PathLike, arrays: list[tuple[Entry, Array]]) -> Snapshot:
    (_, text), *rest = arrays
    sections: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    for entry, array in rest:
        sections[entry.section][entry.name] = array
    cursor = sections.pop("cursor")
    if any(array.dtype != np.int64 or array.shape != () for array in cursor.values()):
        raise IncompatibleSnapshot(path, "its cursor holds other things than integers")
    try:
        return Snapshot(
            architecture=text.tobytes().rstrip(b"\0").decode(),
            cursor={name: int(array) for name, array in cursor.items()},
            **sections,
        )
    except ValueError as error:
        raise IncompatibleSnapshot(path, " ".join(str(error).split())[:200]) from error
