"""TFRecord, written and read by TensorFlow."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from ci.readers.cases.case import Case, Members

__all__ = ["CASES"]

_DICE = np.random.default_rng(0)
_ROWS = _DICE.normal(size=(12, 5)).astype("f4")
_IMAGES = _DICE.integers(0, 256, (12, 6, 4, 3), np.uint8)


def _feature(value: Any) -> Any:
    """One value or a list of them as a feature."""
    import tensorflow as tf

    values = [value] if isinstance(value, int | float | bytes) else list(value)
    if not values:
        return tf.train.Feature()
    if isinstance(values[0], bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if isinstance(values[0], int | np.integer):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def _example(row: dict[str, Any]) -> bytes:
    import tensorflow as tf

    named = {name: _feature(value) for name, value in row.items()}
    content = tf.train.Example(features=tf.train.Features(feature=named)).SerializeToString()
    assert isinstance(content, bytes)
    return content


def _records(path: Path, contents: Iterable[bytes], packed: str = "") -> None:
    import tensorflow as tf

    with tf.io.TFRecordWriter(str(path), packed) as writer:
        for content in contents:
            writer.write(content)


def _parsed(paths: list[Path], packed: str = "") -> Members:
    """Every feature of any record, as TensorFlow gives it: (records, values) or (records,).

    One value alone has no axis of its own, bytes are uint8; ``None`` where records differ in it.
    """
    import tensorflow as tf

    rows: list[dict[str, np.ndarray]] = []
    for content in tf.data.TFRecordDataset([str(path) for path in paths], packed):
        example = tf.train.Example.FromString(content.numpy())
        rows.append({})
        for name, feature in example.features.feature.items():
            values = getattr(feature, feature.WhichOneof("kind") or "int64_list").value
            bare = [np.frombuffer(v, np.uint8) if isinstance(v, bytes) else v for v in values]
            if len({np.shape(value) for value in bare}) == 1:
                kind = np.float32 if isinstance(bare[0], float) else None
                rows[-1][name] = np.asarray(bare[0] if len(bare) == 1 else bare, kind)
    names = sorted({name for row in rows for name in row})
    columns = {name: [row.get(name) for row in rows] for name in names}
    return {name: _column(values) for name, values in columns.items()}


def _column(values: list[Any]) -> Any:
    if any(value is None for value in values) or len({value.shape for value in values}) > 1:
        return None
    return np.stack(values)


def _case(
    name: str, rows: Callable[[int], dict[str, Any]], *, word: str = "", file: str = "d.tfrecord",
    packed: str = "", read: Callable[[Path], Members] | None = None, **options: Any,
) -> Case:  # fmt: skip
    """Twelve records, of which *rows* says what is in each."""

    def write(path: Path) -> None:
        _records(path, (_example(rows(row)) for row in range(12)), packed)

    return Case(name, file, write, read or (lambda path: _parsed([path], packed)), word, options)


def _plain(row: int) -> dict[str, Any]:
    return {"x": _ROWS[row].tolist(), "y": row % 3}


def _png(row: int) -> dict[str, Any]:
    import tensorflow as tf

    return {"image": tf.io.encode_png(_IMAGES[row]).numpy(), "label": row % 3}


def _png_read(path: Path) -> Members:
    return {"image": _IMAGES, "label": np.arange(12) % 3}


def _tensor(row: int) -> dict[str, Any]:
    import tensorflow as tf

    return {"x": tf.io.serialize_tensor(_ROWS[row]).numpy(), "y": row}


def _sequences(path: Path) -> None:
    import tensorflow as tf

    contents = []
    for row in range(12):
        steps = [_feature(float(step)) for step in range(row + 1)]
        contents.append(
            tf.train.SequenceExample(
                context=tf.train.Features(feature={"label": _feature(row)}),
                feature_lists=tf.train.FeatureLists(
                    feature_list={"steps": tf.train.FeatureList(feature=steps)}
                ),
            ).SerializeToString()
        )
    _records(path, contents)


def _sequences_read(path: Path) -> Members:
    return {"label": np.arange(12), "steps": None}


def _words(path: Path) -> None:
    _records(path, [b"not an example at all", b"nor this"])


def _shards(*names: str) -> Callable[[Path], None]:
    """A folder of files that each hold a part of the twelve records."""

    def write(path: Path) -> None:
        path.mkdir()
        for number, name in enumerate(names):
            rows = range(number * 12 // len(names), (number + 1) * 12 // len(names))
            _records(path / name, (_example(_plain(row)) for row in rows))

    return write


def _folder(path: Path) -> Members:
    return _parsed(sorted(path.iterdir()))


def _train_and_test(path: Path) -> Members:
    parts = {"_train": "train", "_test": "test"}
    return {
        f"{name}{suffix}": values
        for suffix, part in parts.items()
        for name, values in _parsed(sorted(path.glob(f"{part}*"))).items()
    }


def _damaged(place: int) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        _records(path, (_example(_plain(row)) for row in range(12)))
        content = bytearray(path.read_bytes())
        content[place] ^= 1
        path.write_bytes(content)

    return write


def _cut(path: Path) -> None:
    _records(path, (_example(_plain(row)) for row in range(12)))
    path.write_bytes(path.read_bytes()[:-5])


def _gzip(path: Path) -> None:
    plain = path.with_name("plain")
    _records(plain, (_example(_plain(row)) for row in range(12)))
    path.write_bytes(gzip.compress(plain.read_bytes()))


CASES = [
    _case("floats and a label", _plain),
    _case("a single float", lambda row: {"x": float(row), "y": row}),
    _case("several int64", lambda row: {"x": [row, row * 2, -row], "y": row}),
    _case("int64 above 2^53", lambda row: {"x": [(1 << 60) + row, row], "y": row}),
    _case("raw bytes", lambda row: {"x": _IMAGES[row].tobytes(), "y": row}),
    _case("bytes of one byte", lambda row: {"x": bytes([row]), "y": row}),
    _case("PNG images", _png, read=_png_read),
    _case("three features", lambda row: {"a": _ROWS[row].tolist(), "b": row, "c": [1.0, 2.0]}),
    _case("label by name", lambda row: {"a": row, "b": row * 2}, label="b",
          read=lambda path: {**_parsed([path]), "x": np.arange(12), "y": np.arange(12) * 2}),
    _case("a feature named y that is no label", lambda row: {"y": [1.0, row], "label": row},
          read=lambda path: _parsed([path])),
    _case("several bytes", lambda row: {"x": [b"ab", bytes([row, 3])], "y": row},
          word="bytes|values of x"),
    _case("several images", lambda row: {"image": [_png(row)["image"]] * 2, "label": row},
          read=lambda path: {"image": np.stack([_IMAGES] * 2, 1), "label": np.arange(12)},
          word="values of image|images|bytes"),
    _case("several bytes later", lambda row: {"x": [b"ab"] * (1 + (row > 4)), "y": row},
          word="record 5"),
    _case("varying numbers of floats", lambda row: {"x": [1.0] * (row + 1), "y": row},
          word="record 1"),
    _case("varying lengths of bytes", lambda row: {"x": b"a" * (row + 1), "y": row},
          word="record 1"),
    _case("a serialized tensor", _tensor),
    _case("a feature missing later", lambda row: {"x": [1.0, 2.0], **({"y": 1} if row < 5 else {})},
          word="record 5"),
    _case("a feature missing at first", lambda row: {"x": [1.0, row], **({"y": 1} if row else {})},
          word="record|y"),
    _case("a feature empty at first", lambda row: {"x": [1.0, row], "y": [1] if row else []},
          word="record|y"),
    _case("a feature empty in all", lambda row: {"x": [1.0, row], "y": row, "z": []}),
    _case("a feature of another kind later", lambda row: {"x": 1.0 if row < 5 else 1, "y": row},
          read=lambda path: {"x": None}, word="record 5"),
    _case("no features", lambda row: {}, read=lambda path: {}, word="feature"),
    _case("a feature named with a slash", lambda row: {"image/class/label": row, "a/b": 1.0 + row}),
    Case("SequenceExample", "d.tfrecord", _sequences, _sequences_read, "SequenceExample|steps"),
    Case("no examples", "d.tfrecord", _words, word="Example"),
    _case("packed by gzip", _plain, packed="GZIP", word="gzip"),
    Case("packed by gzip, .gz", "d.tfrecord.gz", _gzip, lambda path: _parsed([path], "GZIP"),
         "gzip"),
    _case("packed by zlib", _plain, packed="ZLIB", word="TFRecord|known"),
    _case("a shard's name", _plain, file="train-00000-of-00001"),
    _case("a name without a suffix", _plain, file="records"),
    Case("shards", "set", _shards("d.tfrecord-00000-of-00002", "d.tfrecord-00001-of-00002"),
         _folder),
    Case("twelve shards", "set", _shards(*(f"d-{n:05d}-of-00012" for n in range(12))), _folder),
    Case("train and test", "set", _shards("test.tfrecord", "train.tfrecord"), _train_and_test),
    Case("train and test in shards", "set", _shards(
        "test-00000-of-00001", "train-00000-of-00002", "train-00001-of-00002"), _train_and_test),
    Case("names that say train at the end", "set",
         _shards("mnist-test.tfrecord", "mnist-train.tfrecord"),
         lambda path: {
             f"{name}_{part}": values
             for part in ("train", "test")
             for name, values in _parsed([path / f"mnist-{part}.tfrecord"]).items()},
         "train"),
    Case("a damaged length", "d.tfrecord", _damaged(0), word="checksum|TFRecord"),
    Case("a damaged value", "d.tfrecord", _damaged(30), word="checksum"),
    Case("a damaged value in the last record", "d.tfrecord", _damaged(-20), word="checksum"),
    Case("cut short", "d.tfrecord", _cut, word="cut short"),
    Case("no record", "d.tfrecord", lambda path: _records(path, []), word="empty"),
]  # fmt: skip
