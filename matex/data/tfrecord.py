"""TFRecord files of ``tf.train.Example``: an index of the records, checked when read.

A record is its length (8 bytes), the length's masked CRC-32C, the content, and its CRC.
"""

from __future__ import annotations

import os
import struct
import threading
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from matex.data.crc32c import masked_crc32c
from matex.data.formats import SHARDS, part_of
from matex.data.pictures import is_picture, pixels, pixels_of_all
from matex.data.rows import Joined, Rows
from matex.data.source import Data
from matex.errors import DataError, InputError

__all__ = ["open_tfrecord"]

_HEAD, _TAIL = 12, 4
_ALIASES = {
    "y": ("y", "label", "labels", "target", "image/class/label"),
    "x": ("x", "image", "features", "input", "image/encoded"),
}
_DTYPES = {"int64_list": np.int64, "float_list": np.float32, "bytes_list": np.uint8}


class _Records:
    """Records of a file, by number. The last ones are cached, because features share them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._places = _index(path)
        self._lock = threading.Lock()
        self._last: tuple[np.ndarray, list[Any]] = (np.empty(0, np.int64), [])

    def __len__(self) -> int:
        return len(self._places) - 1

    def where(self, row: int) -> str:
        return f"{self._path} (record {row})"

    def examples(self, indices: np.ndarray) -> list[Any]:
        """The ``tf.train.Example`` of each; DataError names the record that is damaged."""
        with self._lock:
            if not np.array_equal(indices, self._last[0]):
                self._last = (indices.copy(), self._read(indices.tolist()))
            return self._last[1]

    def _read(self, rows: list[int]) -> list[Any]:
        try:
            with self._path.open("rb", buffering=0) as file:  # no folder of shards stays open
                return [self._example(file, row) for row in rows]
        except OSError as error:
            raise DataError(
                f"{self._path} must be readable. Received: {error}, for record {rows[0]} and on"
            ) from None

    def _example(self, file: Any, row: int) -> Any:
        import tensorflow as tf
        from google.protobuf.message import DecodeError

        start, end = int(self._places[row]) + _HEAD, int(self._places[row + 1])
        record = os.pread(file.fileno(), end - start, start)
        content = record[:-_TAIL]
        if len(record) < end - start or _stored(record[-_TAIL:]) != masked_crc32c(content):
            raise DataError(
                f"{self.where(row)} must have the checksum stored with it. "
                "Received: another; the file is damaged, copy it again"
            )
        try:
            return tf.train.Example.FromString(content)
        except DecodeError as error:
            raise DataError(
                f"{self.where(row)} must be a tf.train.Example. Received: {error}"
            ) from None


class _Feature(Rows):
    """One feature of every record, with the kind and length of the first record's."""

    def __init__(self, records: _Records, name: str, size: tuple[int, int] | None) -> None:
        self._records = records
        self._name = name
        self._size = size
        (first,) = records.examples(np.zeros(1, np.int64))
        feature = first.features.feature[name]
        self._kind = feature.WhichOneof("kind")
        self.dtype = np.dtype(_DTYPES[self._kind])
        values = getattr(feature, self._kind).value
        self._count = len(values)
        several = () if len(values) == 1 else (len(values),)
        self._picture = self._kind == "bytes_list" and is_picture(values[0])
        if self._picture:
            self._inner = pixels(values[0], size, records.where(0)).shape
        elif self._kind == "bytes_list":
            self._inner = (len(values[0]),)
        else:
            self._inner = ()
        self.shape = (len(records), *several, *self._inner)

    @property
    def note(self) -> str:
        return "images" if self._picture else self._kind.removesuffix("_list")

    def rows(self, indices: np.ndarray) -> np.ndarray:
        contents = (
            (self._records.where(row), self._values(row, example))
            for row, example in zip(indices.tolist(), self._records.examples(indices), strict=True)
        )
        shape = (len(indices), *self.shape[1:])
        if self._picture:
            images = ((where, value) for where, values in contents for value in values)
            count = len(indices) * self._count
            return pixels_of_all(images, count, self._inner, self._size).reshape(shape)
        result = np.empty(shape, self.dtype)
        for place, (where, values) in enumerate(contents):
            if self._kind == "bytes_list":
                for value in values:
                    self._must_have(where, self._inner[0], len(value), "bytes")
                result[place] = np.frombuffer(b"".join(values), np.uint8).reshape(shape[1:])
            else:
                result[place] = np.reshape(values, shape[1:])
        return result

    def _must_have(self, where: str, wanted: int, found: int, what: str) -> None:
        if found != wanted:
            raise DataError(
                f"{where} must have {wanted} {what} of {self._name}, as record 0 has. "
                f"Received: {found}"
            )

    def _values(self, row: int, example: Any) -> Any:
        feature = example.features.feature
        kind = feature[self._name].WhichOneof("kind") if self._name in feature else None
        values = () if kind is None else getattr(feature[self._name], kind).value
        if kind != self._kind or not values:
            raise DataError(
                f"{self._records.where(row)} must have {self._name} as {self._kind}, as record 0 "
                f"has. Received: {kind or 'none'}"
            )
        self._must_have(self._records.where(row), self._count, len(values), "values")
        return values


def open_tfrecord(
    path: Path, *, label: str | None = None, size: tuple[int, int] | None = None
) -> Data:
    """Each feature of the first record that has values, by name, and ``x`` and ``y``.

    Places are found by the lengths of the records, one short read a record and rank. ``y`` is the
    feature *label*, or the one of a usual name (label, image/class/label), ``x`` likewise
    (image, features, image/encoded), or the only other feature there is.

    The files of a folder are the shards of one set, in the order of their names; where some
    are named train and others val or test, of two: ``x_train``, ``y_train``, ``x_test``, ...

    Raises:
        DataError: the file is empty, ends inside a record, its first record is damaged, or
            has no feature *label*.
    """
    if path.is_dir():
        return _open_folder(path, label, size)
    records = _Records(path)
    if not len(records):
        raise DataError(
            f"{path} must have at least one record. Received: an empty file; copy it again, or "
            "take it away"
        )
    (first,) = records.examples(np.zeros(1, np.int64))
    names = sorted(
        name
        for name, feature in first.features.feature.items()
        if (kind := feature.WhichOneof("kind")) and getattr(feature, kind).value
    )
    if label is not None and label not in names:
        raise InputError(f"label must be one of {', '.join(names)}. Received: {label!r}")
    features = {name: _Feature(records, name, size) for name in names}
    members: dict[str, Rows] = dict(features)
    notes = {name: feature.note for name, feature in features.items()}
    notes |= _passed_over(records, set(names))
    y = label or next((name for name in _ALIASES["y"] if name in names), None)
    others = [name for name in names if name != y]
    x = next((name for name in _ALIASES["x"] if name in others), None)
    x = others[0] if x is None and len(others) == 1 else x
    for short, name in (("x", x), ("y", y)):
        if name is not None and short not in members:
            members[short] = features[name]
            notes[short] = f"is {name}"
    return Data(path, "tfrecord", members, notes=notes)


def _passed_over(records: _Records, names: set[str]) -> dict[str, str]:
    """Features of some records that are not in *names*, those of the first, with reasons.

    The first, the second, the one in the middle and the last are looked at.
    """
    import tensorflow as tf

    found = {}
    last = len(records) - 1
    for row in sorted({0, min(1, last), last // 2, last}):
        (example,) = records.examples(np.array([row]))
        sequence = tf.train.SequenceExample.FromString(example.SerializeToString())
        for name in sequence.feature_lists.feature_list:
            found[name] = (
                "a feature list of a SequenceExample, as long as each record has it: passed over; "
                "read it by tf.data"
            )
        for name, feature in example.features.feature.items():
            if name not in names and feature.WhichOneof("kind"):
                found.setdefault(name, f"in record {row}, without values in record 0: passed over")
    return found


def _open_folder(path: Path, label: str | None, size: tuple[int, int] | None) -> Data:
    sets: dict[str, list[Data]] = {}
    for file in sorted({file for pattern in SHARDS for file in path.glob(pattern)}):
        sets.setdefault(part_of(file.name), []).append(open_tfrecord(file, label=label, size=size))
    members: dict[str, Rows] = {}
    for part, shards in sets.items():
        for name, rows in shards[0].items():
            others = [shard[name] for shard in shards if name in shard]
            shapes = {other.shape[1:] for other in others}
            if len(others) < len(shards) or len(shapes) > 1:
                raise DataError(
                    f"{path} must have {name} alike in all files. "
                    f"Received: {len(others)} of {len(shards)}, of shapes {sorted(shapes)}"
                )
            members[f"{name}{part}"] = rows if len(others) == 1 else Joined(others)
    notes = {"files": str(sum(len(shards) for shards in sets.values()))}
    return Data(path, "tfrecord", members, notes=notes)


def _stored(four: bytes) -> int:
    return int(struct.unpack("<I", four)[0])


def _index(path: Path) -> np.ndarray:
    """Offsets at which each record begins, and the end of the last one; int64."""
    total = path.stat().st_size
    places = [0]
    with path.open("rb") as file:
        while places[-1] < total:
            places.append(_next(file, places[-1], total, f"{path} (record {len(places) - 1})"))
    return np.array(places, np.int64)


def _next(file: BinaryIO, place: int, total: int, where: str) -> int:
    file.seek(place)
    head = file.read(_HEAD)
    if len(head) == _HEAD and _stored(head[8:]) != masked_crc32c(head[:8]):
        raise DataError(
            f"{where} must have the checksum of its length. Received: another; "
            "the file is damaged, copy it again"
        )
    end = place + _HEAD + int(struct.unpack("<Q", head[:8])[0]) + _TAIL if len(head) == _HEAD else 0
    if not place < end <= total:
        raise DataError(
            f"{where} must be whole. Received: a file of {total} bytes, cut short in it; "
            "copy it again"
        )
    return end
