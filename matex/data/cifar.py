"""CIFAR-10 and CIFAR-100 in their binary version: records of labels and three colour planes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from matex.data.mapped import MappedFile
from matex.data.rows import Joined, Rows
from matex.data.source import Data
from matex.errors import DataError

__all__ = ["open_cifar"]

_PLANES = (3, 32, 32)
_PIXELS = 3 * 32 * 32
# How many classes each label byte before the pixels has.
_LABELS = {"CIFAR-10": {"y": 10}, "CIFAR-100": {"y_coarse": 20, "y": 100}}
_TRAIN, _TEST = ("data_batch_*.bin", "train.bin"), ("test_batch.bin", "test.bin")


def open_cifar(path: Path) -> Data:
    """``x`` (rows, 32, 32, 3) uint8 and ``y`` uint8; of CIFAR-100 ``y_coarse`` too.

    An unpacked folder of either has all of them for training, ``x_train``, and for the test.

    Raises:
        DataError: the size is no number of records, or a label out of range.
    """
    if path.is_dir():
        return _open_folder(path)
    kind, members = _read(path)
    return Data(path, "cifar", members, notes={"records": kind})


def _open_folder(path: Path) -> Data:
    """Training and test arrays of an unpacked CIFAR folder.

    Raises:
        DataError: a file is damaged.
    """
    members: dict[str, Rows] = {}
    kinds = set()
    for part, patterns in (("train", _TRAIN), ("test", _TEST)):
        files = sorted(file for pattern in patterns for file in path.glob(pattern))
        if not files:
            continue
        read = [_read(file) for file in files]
        kinds |= {kind for kind, _ in read}
        if len(kinds) > 1:
            raise DataError(f"{path} must be of one kind. Received: {', '.join(sorted(kinds))}")
        for name in read[0][1]:
            members[f"{name}_{part}"] = Joined([found[name] for _, found in read])
    return Data(path, "cifar", members, notes={"records": kinds.pop()})


def _read(path: Path) -> tuple[str, dict[str, Rows]]:
    mapped = MappedFile(path)
    reasons = []
    for kind, labels in _LABELS.items():
        record = len(labels) + _PIXELS
        rows, over = divmod(len(mapped), record)
        if over or not rows:
            reasons.append(f"{len(mapped)} bytes are {rows} records of {kind} and {over} bytes")
            continue
        members: dict[str, Rows] = {
            "x": mapped.array(
                "pixels", (rows, *_PLANES), np.uint8, offset=len(labels), stride=record
            ).moved(0, 2, 3, 1)
        }
        for place, name in enumerate(labels):
            members[name] = mapped.array(name, (rows,), np.uint8, offset=place, stride=record)
        wrong = _wrong_label(members, labels)
        if not wrong:
            return kind, members
        reasons.append(f"{wrong} ({kind})")
    raise DataError(
        f"{path} must be records of CIFAR-10 or CIFAR-100. Received: {'; '.join(reasons)}"
    )


def _wrong_label(members: dict[str, Rows], labels: dict[str, int]) -> str:
    for name, classes in labels.items():
        values = np.asarray(members[name])
        if (values >= classes).any():
            row = int(np.argmax(values >= classes))
            return f"label {values[row]} of {classes} classes in row {row}"
    return ""
