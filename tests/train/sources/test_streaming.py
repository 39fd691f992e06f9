"""Rows as a tf.data pipeline: order, random parts, and what each rank does of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from matex import data
from matex.apoptosis import samples
from matex.errors import InputError
from matex.sources.tfdata_reorder import with_batch_before_map

GENERATOR = np.random.default_rng(0)
SMOOTH = [
    tf.cast(tf.image.resize(GENERATOR.integers(0, 256, (3, 4, 3)), (60, 80)), tf.uint8).numpy()
    for _ in range(10)
]
PNGS = [tf.io.encode_png(pixels).numpy() for pixels in SMOOTH]
JPEGS = [tf.io.encode_jpeg(pixels, quality=95).numpy() for pixels in SMOOTH]
LABELS = np.arange(10)


def read(batches: Any) -> tuple[np.ndarray, list[int]]:
    """All pixels and labels of one pass."""
    found = list(batches)
    return np.concatenate([x for x, _ in found]), [int(label) for _, y in found for label in y]


def test_rows_come_in_their_order_as_they_are() -> None:
    images = data.EncodedImages(PNGS)
    x, y = read(data.as_dataset(images, LABELS, batch_size=4))
    assert y == [*range(10)]
    assert np.array_equal(x, np.stack(SMOOTH))
    only = list(data.as_dataset(np.arange(5.0), batch_size=4))
    assert [batch.numpy().tolist() for batch in only] == [[0, 1, 2, 3], [4]]


def test_each_epoch_has_an_order_of_its_own_that_the_seed_says() -> None:
    many = np.arange(3000)

    def orders(seed: int) -> list[list[int]]:
        batches = data.as_dataset(many, many, batch_size=700, shuffle=seed)
        return [read(batches)[1] for _ in range(2)]

    first, second = orders(1)
    assert sorted(first) == sorted(second) == many.tolist()
    assert first != second != many.tolist()
    assert orders(1) == [first, second]
    assert orders(2)[0] not in (first, second)


@pytest.mark.parametrize("encoded", [True, False])
def test_parts_are_parts_and_others_in_each_epoch(encoded: bool) -> None:
    """Each is smoother than the whole, within its values; half are turned."""
    rows = data.EncodedImages(PNGS, size=(24, 24)) if encoded else np.stack(SMOOTH)
    batches = data.as_dataset(rows, LABELS, shuffle=3, crop=0.2, flip=True)
    passes = []
    for _ in range(2):
        x, y = read(batches)
        passes.append(x[np.argsort(y)])
    assert not np.array_equal(*passes)
    for part, whole in zip(passes[0], SMOOTH, strict=True):
        low, high = whole.min((0, 1)).astype(int), whole.max((0, 1)).astype(int)
        assert (part.min((0, 1)) >= low - 1).all()
        assert (part.max((0, 1)) <= high + 1).all()
    turned = data.as_dataset(rows, LABELS, shuffle=3, flip=True)
    x, y = read(turned)
    plain = np.asarray(rows)[y].astype(int)
    as_is = np.abs(x - plain).reshape(10, -1).max(1) <= 1
    mirrored = np.abs(x - plain[:, :, ::-1]).reshape(10, -1).max(1) <= 1
    assert (as_is ^ mirrored).all()
    assert 0 < mirrored.sum() < 10


def test_a_row_is_the_same_in_whatever_batch_a_rank_makes_it() -> None:
    images = data.EncodedImages(JPEGS, size=(20, 20))
    batches = data.as_dataset(images, LABELS, batch_size=6, shuffle=1, crop=0.3, flip=True)
    pipeline = with_batch_before_map(batches)
    assert pipeline is not None
    for raw in pipeline.raw.take(2):
        whole = pipeline.map(raw)
        for lo, hi in ((0, 1), (1, 3), (3, 4)):
            part = pipeline.map([tensor[lo:hi] for tensor in raw])
            for mine, all_of_it in zip(part, whole, strict=True):
                assert np.array_equal(mine, all_of_it[lo:hi])


def test_a_rank_opens_the_files_of_its_rows_only(tmp_path: Path) -> None:
    for number, content in enumerate(PNGS):
        (tmp_path / "a").mkdir(exist_ok=True)
        (tmp_path / "a" / f"{number}.png").write_bytes(content)
    opened = data.open(tmp_path, size=(8, 8))
    pipeline = with_batch_before_map(data.as_dataset(opened.x, opened.y, batch_size=10))
    assert pipeline is not None
    for number in range(5, 10):
        (tmp_path / "a" / f"{number}.png").unlink()
    (raw,) = pipeline.raw
    x, _ = pipeline.map([tensor[:5] for tensor in raw])
    assert x.shape == (5, 8, 8, 3)
    with pytest.raises(tf.errors.OpError, match=r"9\.png \(row 9\) must be readable"):
        pipeline.map([tensor[9:] for tensor in raw])


def test_large_photographs_are_decoded_small() -> None:
    """A half, a quarter or an eighth, scaled, is nearly the whole picture scaled."""
    whole = tf.image.resize(GENERATOR.integers(0, 256, (3, 4, 3)), (480, 640))
    content = tf.io.encode_jpeg(tf.cast(whole, tf.uint8), quality=95).numpy()
    for side in (480, 230, 110, 50, 20):
        (pixels,) = data.EncodedImages([content], size=(side, side))[:]
        wanted = tf.image.resize(whole[:, 80:560], (side, side), antialias=True)
        assert np.abs(pixels - wanted).mean() < 2.5


def test_what_is_no_picture_and_what_does_not_fit() -> None:
    with pytest.raises(InputError, match=r"same number of rows. Received: 5 and 4"):
        data.as_dataset(np.arange(5), np.arange(4))
    with pytest.raises(InputError, match=r"crop must be above 0"):
        data.as_dataset(np.zeros((2, 4, 4, 3)), crop=0)
    with pytest.raises(InputError, match=r"crop and flip want pictures.*\(5,\)"):
        data.as_dataset(np.arange(5), flip=True)
    cut = data.EncodedImages([JPEGS[0], JPEGS[1][:-200]], size=(4, 4))
    with pytest.raises(tf.errors.OpError, match=r"image 1 must be a whole image"):
        list(data.as_dataset(cut))


def test_chosen_rows_of_encoded_images_are_decoded() -> None:
    images = data.EncodedImages(PNGS).choose(np.array([7, 2]))
    assert np.array_equal(images[:], np.stack([SMOOTH[7], SMOOTH[2]]))
    images[:][0] = 0  # fresh, and one's own
    (x,) = [x for x, _ in data.as_dataset(images, np.array([0, 1]))]
    assert np.array_equal(x[1], SMOOTH[2])
    with pytest.raises(InputError, match=r"row numbers must be of \[0, 10\)"):
        data.EncodedImages(PNGS).choose(np.array([10]))


def test_apoptosis_keeps_a_bounded_part_of_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "_KEPT", 3 * 4 * 7 * 8)
    rows = tf.data.Dataset.from_tensor_slices(np.zeros((100, 7))).repeat().batch(4)
    assert samples.sample_of({"x": rows}, 50).of == 12
