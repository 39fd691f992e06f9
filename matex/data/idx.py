"""MNIST's idx files: a header with the shape, then the values; plain ones mapped, gzip read."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np

from matex.data.formats import head, is_gzip
from matex.data.mapped import MappedFile
from matex.data.rows import Memory, Rows
from matex.data.source import Data
from matex.errors import DataError

__all__ = ["open_idx"]

# The third byte of the file: type of the values, which are big-endian.
_TYPES = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
_MOST_DIMENSIONS = 8
_PARTS = {"train": ("train",), "test": ("t10k", "test")}


def open_idx(path: Path) -> Data:
    """``x``, and ``y`` from the label file with MNIST's matching name; labels alone are ``y``.

    A folder of MNIST's files has ``x_train``, ``y_train``, ``x_test`` and ``y_test``.

    Raises:
        DataError: no idx file, cut short, or another number of labels.
    """
    if path.is_dir():
        return _open_folder(path)
    rows = _read(path)
    if rows.ndim == 1:
        return Data(path, "idx", {"y": rows})
    labels = _beside(path)
    members = {"x": rows} if labels is None else {"x": rows, "y": _read(labels)}
    _check_counts(path, members)
    notes = {} if labels is None else {"y": f"from {labels.name}"}
    return Data(path, "idx", members, notes=notes)


def _open_folder(path: Path) -> Data:
    """The four arrays of a folder with MNIST's files.

    Raises:
        DataError: a file is damaged, or its partner missing.
    """
    members: dict[str, Rows] = {}
    for part, words in _PARTS.items():
        found = [
            file
            for file in sorted(path.iterdir())
            if "-images" in file.name and set(words) & set(file.name.split("-"))
        ]
        sets = {file.name.removesuffix(".gz") for file in found}
        if len(sets) > 1:
            raise DataError(
                f"{path} must hold one set of images to {part}. Received: {', '.join(sorted(sets))}"
                "; open one file"
            )
        if not found:
            continue
        labels = _beside(found[0])
        if labels is None:
            raise DataError(f"{path} must have labels for {found[0].name}. Received: none")
        pair = {f"x_{part}": _read(found[0]), f"y_{part}": _read(labels)}
        _check_counts(found[0], pair)
        members |= pair
    return Data(path, "idx", members)


def _beside(images: Path) -> Path | None:
    name = images.name.replace("-images", "-labels").replace("idx3", "idx1")
    if name == images.name:
        return None
    candidates = (images.with_name(name), images.with_name(name.removesuffix(".gz")),
                  images.with_name(f"{name}.gz"))  # fmt: skip
    return next((path for path in candidates if path.is_file()), None)


def _check_counts(path: Path, members: dict[str, Rows]) -> None:
    counts = {name: len(rows) for name, rows in members.items()}
    if len(set(counts.values())) > 1:
        raise DataError(f"{path} must have a label for every image. Received rows: {counts}")


def _read(path: Path) -> Rows:
    try:
        first = head(path)
        dimensions = first[3] if len(first) > 3 else 0
        offset = 4 + 4 * dimensions
        known = 0 < dimensions <= _MOST_DIMENSIONS and first[:2] == b"\0\0" and first[2] in _TYPES
        if not known or len(first) < offset:
            raise DataError(f"{path} must be an idx file. Received: bytes {first[:4].hex(' ')}")
        shape = struct.unpack(f">{dimensions}I", first[4:offset])
        if not is_gzip(path):
            rows = MappedFile(path).array("the values", shape, _TYPES[first[2]], offset=offset)
            _check_end(path, offset, rows, path.stat().st_size)
            return rows
        with gzip.open(path, "rb") as file:
            content = file.read()
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} must be readable to its end. Received: {error}") from None
    dtype = np.dtype(_TYPES[first[2]])
    wanted = offset + math.prod(shape) * dtype.itemsize
    if len(content) < wanted:
        row_bytes = max(1, (wanted - offset) // max(1, shape[0]))
        raise DataError(
            f"{path} must have {wanted} bytes for values of shape {shape}. Received: "
            f"{len(content)} bytes, cut short at row {(len(content) - offset) // row_bytes}"
        )
    values = np.frombuffer(content, dtype, offset=offset, count=math.prod(shape))
    memory = Memory(values.reshape(shape).astype(dtype.newbyteorder("=")))
    _check_end(path, offset, memory, len(content))
    return memory


def _check_end(path: Path, offset: int, rows: Rows, size: int) -> None:
    wanted = offset + rows.size * rows.dtype.itemsize
    if size != wanted:
        raise DataError(
            f"{path} must have {wanted} bytes for values of shape {rows.shape}. "
            f"Received: {size} bytes"
        )
