"""MNIST's idx and CIFAR's records, as their pages describe them; read by NumPy."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ci.readers.cases.case import Case, Members

__all__ = ["CASES"]

_DICE = np.random.default_rng(0)
_IMAGES = _DICE.integers(0, 256, (12, 28, 28), np.uint8)
_LABELS = (np.arange(12) % 10).astype(np.uint8)
_CODES = {"u1": 8, "i1": 9, "i2": 11, "i4": 12, "f4": 13, "f8": 14}
_KINDS = {code: f">{kind}" for kind, code in _CODES.items()}
_PIXELS = _DICE.integers(0, 256, (12, 3072), np.uint8)


def _idx(values: np.ndarray, kind: str = "u1") -> bytes:
    head = struct.pack(f">HBB{values.ndim}I", 0, _CODES[kind], values.ndim, *values.shape)
    return head + values.astype(f">{kind}").tobytes()


def _parsed(path: Path) -> np.ndarray:
    raw = path.read_bytes()
    raw = gzip.decompress(raw) if path.suffix == ".gz" else raw
    shape = struct.unpack(f">{raw[3]}I", raw[4 : 4 + 4 * raw[3]])
    return np.frombuffer(raw, _KINDS[raw[2]], offset=4 + 4 * raw[3]).reshape(shape)


def _file(
    name: str, file: str, content: bytes, read: Callable[[Path], Members] | None = None,
    word: str = "", **options: Any,
) -> Case:  # fmt: skip
    def write(path: Path) -> None:
        path.write_bytes(gzip.compress(content) if file.endswith(".gz") else content)

    return Case(name, file, write, read, word, options)


def _folder(
    name: str, files: dict[str, bytes], read: Callable[[Path], Members] | None, word: str = ""
) -> Case:
    def write(path: Path) -> None:
        path.mkdir()
        for file, content in files.items():
            (path / file).write_bytes(gzip.compress(content) if file.endswith("gz") else content)

    return Case(name, "set", write, read, word)


def _mnist(path: Path) -> Members:
    names = {"train": "train", "test": "t10k"}
    return {
        f"{key}_{part}": _parsed(next(path.glob(f"{name}-{what}*")))
        for part, name in names.items()
        for key, what in (("x", "images"), ("y", "labels"))
    }


def _four(dot: str = "-", end: str = "") -> dict[str, bytes]:
    return {
        f"{part}-{what}{dot}idx{axes}-ubyte{end}": _idx(values)
        for part in ("train", "t10k")
        for what, axes, values in (("images", 3, _IMAGES), ("labels", 1, _LABELS))
    }


def _cifar(labels: np.ndarray, rows: int = 12) -> bytes:
    """Records of *labels*, shape (rows, 1) or (rows, 2), and pixels."""
    return np.hstack([labels[:rows], _PIXELS[:rows]]).astype(np.uint8).tobytes()


def _cifar_read(labels: int, raw: bytes | None = None) -> Callable[[Path], Members]:
    def read(path: Path) -> Members:
        content = path.read_bytes()
        content = gzip.decompress(content) if path.suffix == ".gz" else content
        records = np.frombuffer(content, np.uint8).reshape(-1, labels + 3072)
        names = ("y",) if labels == 1 else ("y_coarse", "y")
        pixels = records[:, labels:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        return {"x": pixels, **{name: records[:, place] for place, name in enumerate(names)}}

    return read


_TEN = (np.arange(12) % 10)[:, None]
_HUNDRED = np.column_stack([np.arange(12), np.arange(12) * 8])


def _batches(path: Path) -> Members:
    read = _cifar_read(1)
    parts = [read(path / f"data_batch_{number}.bin") for number in (1, 2)]
    test = read(path / "test_batch.bin")
    return {
        "x_train": np.concatenate([part["x"] for part in parts]),
        "y_train": np.concatenate([part["y"] for part in parts]),
        "x_test": test["x"],
        "y_test": test["y"],
    }


def _only_x(path: Path) -> Members:
    return {"x": _parsed(path)}


def _only_y(path: Path) -> Members:
    return {"y": _parsed(path)}


CASES = [
    _file("idx, images", "a-idx3-ubyte", _idx(_IMAGES), _only_x),
    _file("idx, images, .gz", "a-idx3-ubyte.gz", _idx(_IMAGES), _only_x),
    _file("idx, labels", "a-idx1-ubyte", _idx(_LABELS), _only_y),
    _file("idx, labels, .gz", "a-idx1-ubyte.gz", _idx(_LABELS), _only_y),
    *(_file(f"idx of {kind}", "a.idx", _idx(_PIXELS[:, :7].astype("i4") % 100, kind), _only_x)
      for kind in _CODES),
    *(_file(f"idx of {kind}, .gz", "a.idx.gz", _idx(_PIXELS[:, :7].astype("i4") % 100, kind),
            _only_x) for kind in ("i2", "f8")),
    _file("idx of four axes", "a.idx", _idx(_IMAGES.reshape(12, 7, 4, 28)), _only_x),
    _file("idx of eight axes", "a.idx", _idx(_IMAGES.reshape(12, 7, 2, 2, 7, 2, 2, 1)), _only_x),
    _file("idx without a suffix", "numbers", _idx(_IMAGES), _only_x),
    _folder("MNIST", _four(), _mnist),
    _folder("MNIST, .gz", _four(end=".gz"), _mnist),
    _folder("MNIST, with dots", _four(dot="."), _mnist),
    _folder("MNIST, images packed and labels not", {
        name + (".gz" if "images" in name else ""): content for name, content in _four().items()},
        _mnist),
    _folder("MNIST, labels gone", {
        name: content for name, content in _four().items() if name != "train-labels-idx1-ubyte"},
        None, "labels"),
    _folder("MNIST, a label too few", {
        **_four(), "train-labels-idx1-ubyte": _idx(_LABELS[:-1])}, None, "label"),
    _folder("EMNIST", {
        f"emnist-letters-{part}-{what}-idx{axes}-ubyte": _idx(values)
        for part in ("train", "test")
        for what, axes, values in (("images", 3, _IMAGES), ("labels", 1, _LABELS))},
        lambda path: {
            f"{key}_{part}": _parsed(next(path.glob(f"*{part}-{what}*")))
            for part in ("train", "test")
            for key, what in (("x", "images"), ("y", "labels"))},
        "train|emnist"),
    _file("idx, cut short", "a-idx3-ubyte", _idx(_IMAGES)[:-5], word="cut short|bytes"),
    _file("idx, cut short, .gz", "a-idx3-ubyte.gz", _idx(_IMAGES)[:-5], word="cut short|bytes"),
    _file("idx, too long", "a-idx3-ubyte", _idx(_IMAGES) + b"\0", word="bytes"),
    _file("idx, too long, .gz", "a-idx3-ubyte.gz", _idx(_IMAGES) + b"\0", word="bytes"),
    _file("idx of no rows", "a-idx3-ubyte", _idx(_IMAGES[:0]), _only_x, "row"),
    _file("idx of no rows, .gz", "a-idx3-ubyte.gz", _idx(_IMAGES[:0]), _only_x, "row"),
    _file("idx of rows of no values", "a-idx3-ubyte", _idx(_IMAGES[:, :0]), _only_x,
          "row|value"),
    _file("idx, sizes beyond all memory", "a.idx.gz",
          struct.pack(">HBB3I", 0, 8, 3, 1 << 31, 1 << 31, 1 << 31), word="bytes"),
    _file("idx, sizes beyond all memory, plain", "a.idx",
          struct.pack(">HBB3I", 0, 8, 3, 1 << 31, 1 << 31, 1 << 31) + bytes(50), word="bytes"),
    _file("idx, sizes whose product is 2^64", "a.idx",
          struct.pack(">HBB2I", 0, 14, 2, 1 << 31, 1 << 30) + bytes(50), word="bytes"),
    _file("idx, sizes whose product is 2^64, .gz", "a.idx.gz",
          struct.pack(">HBB4I", 0, 8, 4, *[1 << 16] * 4), word="bytes"),
    _file("CIFAR-10", "data_batch_1.bin", _cifar(_TEN), _cifar_read(1)),
    _file("CIFAR-100", "train.bin", _cifar(_HUNDRED), _cifar_read(2)),
    _file("CIFAR-10 under another name", "some", _cifar(_TEN), _cifar_read(1), format="cifar"),
    _file("CIFAR-10 of one record of zeros", "a.bin", bytes(3073), _cifar_read(1)),
    _file("CIFAR-10 of dark images", "a.bin", bytes(3073 * 12), _cifar_read(1)),
    _file("CIFAR-10, .gz", "data_batch_1.bin.gz", _cifar(_TEN), _cifar_read(1), "gzip|packed"),
    _file("CIFAR-10, cut short", "a.bin", _cifar(_TEN)[:-5], word="bytes"),
    _file("CIFAR-10, a label of 10", "a.bin", _cifar(_TEN + 1), word="label 10"),
    _file("CIFAR, empty", "a.bin", b"", word="empty"),
    _folder("CIFAR-10's folder", {
        "data_batch_1.bin": _cifar(_TEN), "data_batch_2.bin": _cifar(_TEN[::-1]),
        "test_batch.bin": _cifar(_TEN, 5), "batches.meta.txt": b"airplane\n"}, _batches),
    _folder("CIFAR-10 and CIFAR-100 mixed", {
        "data_batch_1.bin": _cifar(_TEN), "test.bin": _cifar(_HUNDRED)}, None, "one kind"),
    _folder("CIFAR-100's folder", {"train.bin": _cifar(_HUNDRED), "test.bin": _cifar(_HUNDRED, 5)},
            lambda path: {
                f"{key}_{part}": values for part in ("train", "test")
                for key, values in _cifar_read(2)(path / f"{part}.bin").items()}),
]  # fmt: skip
