"""Images and TFRecord, which need TensorFlow to be decoded: one process, no ranks."""

from __future__ import annotations

import gzip
import re
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from matex import data
from matex.data.convert import convert
from matex.data.crc32c import masked_crc32c
from matex.data.reading_errors import data_error_in
from matex.errors import DataError, InputError

PIXELS = np.random.default_rng(0).integers(0, 256, (12, 10, 14, 3), np.uint8)


def folder_of(root: Path, *, classes: int = 3) -> Path:
    """Four PNG files a class, in the order of PIXELS."""
    for number, image in enumerate(PIXELS):
        folder = root / f"n{number * classes // 12:04d}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number:02d}.png").write_bytes(tf.io.encode_png(image).numpy())
    return root


def test_a_folder_a_class(tmp_path: Path) -> None:
    opened = data.open(folder_of(tmp_path))
    rows = np.array([7, 0, 11])
    assert opened.x.shape == (12, 10, 14, 3)
    assert np.array_equal(opened.x.rows(rows), PIXELS[rows])
    assert opened.y.rows(rows).tolist() == [1, 0, 2]
    assert opened.facts["classes"] == ["n0000", "n0001", "n0002"]


def test_imagenet_s_layout(tmp_path: Path) -> None:
    folder_of(tmp_path / "train")
    only = tmp_path / "val" / "n0002"
    only.mkdir(parents=True)
    (only / "a.JPEG").write_bytes(tf.io.encode_jpeg(PIXELS[0], quality=100).numpy())
    opened = data.open(tmp_path, size=(5, 7))
    assert list(opened) == ["x_train", "y_train", "x_test", "y_test"]
    assert opened.x_train.shape == (12, 5, 7, 3)
    assert opened.y_test[:].tolist() == [2]
    (tmp_path / "val" / "n0009").mkdir()
    with pytest.raises(InputError, match=r"val must have classes that are trained.*n0009"):
        data.open(tmp_path)


def test_images_are_cut_and_scaled_not_distorted(tmp_path: Path) -> None:
    image = np.zeros((40, 80, 3), np.uint8)
    image[:, 20:60] = 200  # the middle square
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.png").write_bytes(tf.io.encode_png(image).numpy())
    assert (data.open(tmp_path, size=(10, 10)).x[0] == 200).all()
    with pytest.raises(InputError, match=r"both at least 1. Received: \(0, 3\)"):
        data.open(tmp_path, size=(0, 3))
    with pytest.raises(InputError, match=r"both at least 1. Received: 7"):
        data.open(tmp_path, size=7)  # type: ignore[arg-type]


BAD: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "text": (lambda content: b"not found", r"must be a JPEG.*9 bytes that begin 6e 6f 74 20"),
    "empty": (lambda content: b"", "0 bytes that begin nowhere"),
    "cut short": (lambda content: content[: len(content) // 2], "must be a whole image"),
    "JPEG cut short": (
        lambda content: tf.io.encode_jpeg(PIXELS[5]).numpy()[:-60],
        "must be a whole image",
    ),
    "another size": (lambda content: tf.io.encode_png(PIXELS[0][:5]).numpy(), "5 x 14; give a"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_image_names_file_and_row(case: str, tmp_path: Path) -> None:
    change, message = BAD[case]
    opened = data.open(folder_of(tmp_path))
    path = tmp_path / "n0001" / "05.png"
    path.write_bytes(change(path.read_bytes()))
    assert np.array_equal(opened.x[:5], PIXELS[:5])
    with pytest.raises(InputError, match=message) as caught:
        opened.x[4:8]
    assert f"{path} (row 5)" in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(tf.errors.InvalidArgumentError) as of_pipeline:
        list(data.as_dataset(opened.x, batch_size=4, shuffle=1))
    found = data_error_in(of_pipeline.value)
    assert f"{path} (row 5)" in str(found) and re.search(message, str(found))
    assert data_error_in(ValueError("of another kind")) is None


def bmp(bits: int, pixels: bytes, *, height: int = 2, packing: int = 0) -> bytes:
    """A BMP of two by two pixels; colour c of its palette is (c, 10 + c, 20 + c)."""
    colours = 1 << bits
    palette = b"".join(bytes([20 + c & 255, 10 + c & 255, c, 0]) for c in range(colours))
    start = 54 + len(palette)
    head = struct.pack("<2sIHHI", b"BM", start + len(pixels), 0, 0, start)
    info = struct.pack("<IiiHHIIiiII", 40, 2, height, 1, bits, packing, 0, 0, 0, colours, 0)
    return head + info + palette + pixels


@pytest.mark.parametrize(
    ("bits", "lines"),
    [(8, [b"\x03\x00\0\0", b"\x01\x02\0\0"]), (4, [b"\x30\0\0\0", b"\x12\0\0\0"])],
)
def test_colours_of_a_palette(bits: int, lines: list[bytes], tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.bmp").write_bytes(bmp(bits, b"".join(lines)))
    (tmp_path / "a" / "2.bmp").write_bytes(bmp(bits, b"".join(lines[::-1]), height=-2))
    opened = data.open(tmp_path)
    wanted = np.array([[1, 2], [3, 0]])[..., None] + [0, 10, 20]
    assert np.array_equal(opened.x[0], wanted) and np.array_equal(opened.x[1], wanted)
    (tmp_path / "a" / "2.bmp").write_bytes(bmp(bits, b"".join(lines), packing=1))
    with pytest.raises(InputError, match=r"2.bmp .row 1. must be a BMP that is not packed"):
        _ = opened.x[1]
    (tmp_path / "a" / "2.bmp").write_bytes(bmp(bits, b"".join(lines))[:-3])
    with pytest.raises(InputError, match=r"must be a whole BMP"):
        _ = opened.x[1]


def test_images_that_would_be_passed_over_are_named(tmp_path: Path) -> None:
    folder_of(tmp_path)
    (tmp_path / "n0000" / "about.txt").write_text("not an image")
    assert len(data.open(tmp_path).x) == 12
    (tmp_path / "n0001" / "more").mkdir()
    (tmp_path / "n0001" / "more" / "1.png").write_bytes(b"")
    with pytest.raises(DataError, match=r"n0001 must hold the images .* the folder more"):
        data.open(tmp_path)
    (tmp_path / "n0001" / "more" / "1.png").rename(tmp_path / "n0001" / "1.webp")
    with pytest.raises(DataError, match=r"Received: 1.webp; convert it"):
        data.open(tmp_path)


def test_a_folder_without_images(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"folder of .jpeg.*Received: no folder in it"):
        data.open(tmp_path)
    (tmp_path / "text").mkdir()
    with pytest.raises(InputError, match=r"folder of .jpeg.*1 folders without one"):
        data.open(tmp_path)


def test_real_photographs_are_decoded_alike_from_all_stores(
    real_data: Callable[[str], Path], tmp_path: Path
) -> None:
    with data.open(real_data("cifar10_jpeg.h5")) as stored:
        ends = stored.offsets_test[:41]
        jpeg = stored.jpeg_test[: int(ends[-1])].tobytes()
        labels = stored.y_test[:40]
    for i, label in enumerate(labels):
        folder = tmp_path / str(label)
        folder.mkdir(exist_ok=True)
        (folder / f"{i:03d}.jpg").write_bytes(jpeg[ends[i] : ends[i + 1]])
    opened = data.open(tmp_path)
    assert opened.x.shape == (40, 32, 32, 3)
    known = sorted(opened.facts["classes"])
    assert sorted(known[i] for i in opened.y[:]) == sorted(str(label) for label in labels)
    assert opened.x[:].std() > 30


# ---------------------------------------------------------------- TFRecord


def feature(values: object) -> tf.train.Feature:
    if isinstance(values, bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[values]))
    array = np.atleast_1d(values)
    if array.dtype.kind == "f":
        return tf.train.Feature(float_list=tf.train.FloatList(value=array))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=array))


def write_records(path: Path, *, rows: int = 12, **changes: object) -> Path:
    """Written by TensorFlow: an image, its label, five floats and four raw bytes."""
    with tf.io.TFRecordWriter(str(path)) as writer:
        for i in range(rows):
            content = {
                "image/encoded": tf.io.encode_png(PIXELS[i]).numpy(),
                "image/class/label": i % 5,
                "momenta": np.arange(5) + i / 8,
                "bits": bytes([i, 1, 2, 3]),
            }
            if i == rows - 1:
                content |= changes
            named = {name: feature(value) for name, value in content.items() if value is not None}
            example = tf.train.Example(features=tf.train.Features(feature=named))
            writer.write(example.SerializeToString())
    return path


def test_every_feature_of_a_record(tmp_path: Path) -> None:
    opened = data.open(write_records(tmp_path / "a.tfrecord"))
    rows = np.array([9, 2])
    assert set(opened) == {"x", "y", "image/encoded", "image/class/label", "momenta", "bits"}
    assert np.array_equal(opened.x.rows(rows), PIXELS[rows])
    assert opened.y.rows(rows).tolist() == [4, 2]
    assert opened["momenta"][3].tolist() == (np.arange(5) + 3 / 8).tolist()
    assert opened["bits"][[5]].tolist() == [[5, 1, 2, 3]]
    assert opened.notes["x"] == "is image/encoded"
    opened.close()


def test_shards_are_one_set(tmp_path: Path) -> None:
    for name in ("train-00000-of-00002", "train-00001-of-00002", "validation-00000-of-00001"):
        write_records(tmp_path / name, rows=5 if name.startswith("train-00000") else 12)
    opened = data.open(tmp_path)
    assert opened.x_train.shape == (17, 10, 14, 3)
    assert np.array_equal(opened.x_train[[16, 0, 5]], PIXELS[[11, 0, 0]])
    assert len(opened.y_test) == 12
    write_records(tmp_path / "train-00002-of-00003", rows=1, momenta=np.arange(2.0))
    with pytest.raises(DataError, match=r"must have momenta alike in all files"):
        data.open(tmp_path)


def test_shards_are_read_once_and_parts_are_words_of_a_name(tmp_path: Path) -> None:
    for name in ("set.tfrecord-00000-of-00002", "set.tfrecord-00001-of-00002"):
        write_records(tmp_path / name)
    assert len(data.open(tmp_path).x) == 24
    folder = tmp_path / "parts"
    folder.mkdir()
    for name in ("mnist-test.tfrecord", "mnist-train.tfrecord"):
        write_records(folder / name)
    assert {"x_train", "x_test"} < set(data.open(folder))


def test_several_values_of_bytes_are_all_read(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    image = [tf.io.encode_png(pixels).numpy() for pixels in PIXELS]
    with tf.io.TFRecordWriter(str(path)) as writer:
        for row in range(4):
            named = {
                "pair": [bytes([row, 1]), bytes([2, row])][: 2 - row // 3],
                "image": [image[row], image[row + 1]],
            }
            features = {
                name: tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
                for name, values in named.items()
            }
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())
    opened = data.open(path)
    assert opened["pair"][[2]].tolist() == [[[2, 1], [2, 2]]]
    assert np.array_equal(opened["image"][1], PIXELS[1:3])
    with pytest.raises(DataError, match=r"record 3. must have 2 values of pair, .* Received: 1"):
        _ = opened["pair"][3]


def test_what_of_records_is_passed_over_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    number = tf.train.Feature(int64_list=tf.train.Int64List(value=[7]))
    with tf.io.TFRecordWriter(str(path)) as writer:
        for row in range(3):
            context = {"label": number} | ({"late": number} if row else {})
            steps = tf.train.FeatureList(feature=[number] * (row + 1))
            example = tf.train.SequenceExample(
                context=tf.train.Features(feature=context),
                feature_lists=tf.train.FeatureLists(feature_list={"steps": steps}),
            )
            writer.write(example.SerializeToString())
    opened = data.open(path)
    assert "SequenceExample" in opened.notes["steps"] and "record 1" in opened.notes["late"]
    assert set(opened) == {"label", "y"}


def test_packed_records_are_to_be_unpacked(tmp_path: Path) -> None:
    path = write_records(tmp_path / "a.tfrecord")
    packed = tmp_path / "a.tfrecord.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    with pytest.raises(DataError, match=r"TFRecord packed by gzip; unpack it: gunzip -k"):
        data.open(packed)


def test_convert_writes_nothing_twice(tmp_path: Path) -> None:
    convert(data.open(write_records(tmp_path / "a.tfrecord")), tmp_path / "a.h5")
    with data.open(tmp_path / "a.h5") as opened:
        assert set(opened) == {"x", "y", "momenta", "bits"}
        assert np.array_equal(opened.x, PIXELS)


def test_the_label_that_is_asked_for(tmp_path: Path) -> None:
    path = write_records(tmp_path / "a.tfrecord")
    assert data.open(path, label="momenta").y.shape == (12, 5)
    with pytest.raises(InputError, match=r"label must be one of bits, .*Received: 'none'"):
        data.open(path, label="none")


def test_a_damaged_record_is_named_when_it_is_read(tmp_path: Path) -> None:
    path = write_records(tmp_path / "a.tfrecord")
    content = bytearray(path.read_bytes())
    place = content.index(bytes([7, 1, 2, 3]))
    content[place] ^= 1
    path.write_bytes(content)
    opened = data.open(path)
    assert opened["bits"][6].tolist() == [6, 1, 2, 3]
    with pytest.raises(InputError, match=r"a.tfrecord \(record 7\) must have the checksum"):
        opened.y[[7]]


@pytest.mark.parametrize("cut", [3, 100])
def test_records_that_are_cut_short_are_refused(cut: int, tmp_path: Path) -> None:
    path = write_records(tmp_path / "a.tfrecord")
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(InputError, match=r"a.tfrecord \(record 11\) must be whole.*cut short"):
        data.open(path)


def test_a_record_with_a_damaged_length_is_refused(tmp_path: Path) -> None:
    path = write_records(tmp_path / "a.tfrecord", rows=2)
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    second = 12 + length + 4
    path.write_bytes(content[:second] + b"\7" + content[second + 1 :])
    with pytest.raises(InputError, match=r"record 1\) must have the checksum of its length"):
        data.open(path)


CHANGES: dict[str, tuple[dict[str, object], str, str]] = {
    "shorter": ({"momenta": np.arange(3.0)}, "momenta", "5 values of momenta.*Received: 3"),
    "another type": ({"momenta": np.arange(5)}, "momenta", "as float_list.*Received: int64_list"),
    "missing": ({"momenta": None}, "momenta", "as float_list.*Received: none"),
    "no image": ({"image/encoded": b"text"}, "x", "must be a JPEG"),
}


@pytest.mark.parametrize("case", CHANGES)
def test_a_record_unlike_the_first(case: str, tmp_path: Path) -> None:
    changes, name, message = CHANGES[case]
    opened = data.open(write_records(tmp_path / "a.tfrecord", **changes))
    assert len(opened[name][:11]) == 11
    with pytest.raises(InputError, match=message) as caught:
        opened[name][11]
    assert f"{tmp_path / 'a.tfrecord'} (record 11)" in str(caught.value)


def test_a_record_that_is_no_example(tmp_path: Path) -> None:
    content = b"\xff" * 20
    head = struct.pack("<Q", 20)
    path = tmp_path / "a.tfrecord"
    path.write_bytes(
        head
        + struct.pack("<I", masked_crc32c(head))
        + content
        + struct.pack("<I", masked_crc32c(content))
    )
    with pytest.raises(InputError, match=r"\(record 0\) must be a tf.train.Example"):
        data.open(path)
