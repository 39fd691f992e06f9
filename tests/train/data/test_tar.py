"""Tar shards in WebDataset's layout: one file, a folder, a pattern and a list, with TensorFlow."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from matex import data
from matex.data.convert import convert
from matex.errors import DataError, InputError
from tests.unit.data.test_tar_index import tar_of

PIXELS = np.random.default_rng(0).integers(0, 256, (12, 10, 14, 3), np.uint8)
PNGS = [tf.io.encode_png(pixels).numpy() for pixels in PIXELS]


def shards_of(folder: Path, *names: str, word: str = "{}") -> list[Path]:
    """The twelve pictures in as many tars as *names*; classes 0, 1, 2 by turns, said by *word*."""
    folder.mkdir(parents=True, exist_ok=True)
    each = 12 // len(names)
    paths = []
    for number, name in enumerate(names):
        files: dict[str, bytes] = {}
        for row in range(number * each, (number + 1) * each):
            files |= {f"{row}.png": PNGS[row], f"{row}.cls": word.format(row % 3).encode()}
        paths.append(tar_of(folder / name, files))
    return paths


def test_a_folder_a_pattern_a_list_and_one(tmp_path: Path) -> None:
    paths = shards_of(tmp_path, "s-0.tar", "s-1.tar", "s-2.tar")
    rows = np.array([11, 0, 5, 4])
    for given in (tmp_path, str(tmp_path / "s-*.tar"), paths, [str(path) for path in paths]):
        opened = data.open(given)
        assert list(opened) == ["x", "y"]
        assert np.array_equal(opened.x.rows(rows), PIXELS[rows])
        assert opened.y.rows(rows).tolist() == [2, 0, 2, 1]
        assert opened.notes == {"files": "3", "classes": "3"}
    one = data.open(paths[1], size=(5, 7))
    assert one.x.shape == (4, 5, 7, 3)
    assert np.array_equal(data.open(paths[1]).x[-1], PIXELS[7])


def test_parts_and_names_of_classes(tmp_path: Path) -> None:
    shards_of(tmp_path / "a", "in-train-0.tar", "in-train-1.tar", "in-val-0.tar", word="n{}")
    shards_of(tmp_path / "b" / "train", "0.tar", "1.tar", word="n{}")
    shards_of(tmp_path / "b" / "val", "0.tar", word="n{}")
    for folder, tests in (("a", 4), ("b", 12)):
        opened = data.open(tmp_path / folder)
        assert list(opened) == ["x_train", "y_train", "x_test", "y_test"]
        assert len(opened.x_test) == tests
        assert opened.facts["classes"] == ["n0", "n1", "n2"]
        assert opened.y_train[:4].tolist() == [0, 1, 2, 0]
    shards_of(tmp_path / "a", "in-test-1.tar", word="other{}")
    with pytest.raises(DataError, match=r"must have classes that are trained.*other0"):
        data.open(tmp_path / "a")


def test_a_shard_without_files_adds_no_samples(tmp_path: Path) -> None:
    shards_of(tmp_path, "in-train-0.tar", "in-train-2.tar", word="n{}")
    for name in ("in-train-1.tar", "in-train-3.tar", "in-val-0.tar"):
        tar_of(tmp_path / name, {})
    opened = data.open(tmp_path)
    assert list(opened) == ["x_train", "y_train"]
    assert np.array_equal(opened.x_train[:], PIXELS)
    assert opened.y_train[:4].tolist() == [0, 1, 2, 0]
    assert opened.notes == {"files": "5", "classes": "3"}


@pytest.mark.parametrize(("count", "received"), [(1, "a tar"), (2, "2 tars")])
def test_shards_that_are_all_without_files(count: int, received: str, tmp_path: Path) -> None:
    paths = [tar_of(tmp_path / f"in-{number}.tar", {}) for number in range(count)]
    for given in (paths, tmp_path):
        with pytest.raises(
            DataError,
            match=rf"must hold NAME\.jpg and NAME\.cls\. Received: {received} without files",
        ):
            data.open(given)


def test_tars_beside_what_was_unpacked_of_them(tmp_path: Path) -> None:
    """ImageNet comes as a tar of each class, and these often stay where they were unpacked."""
    (tmp_path / "train" / "n0").mkdir(parents=True)
    (tmp_path / "train" / "n0" / "0.png").write_bytes(PNGS[0])
    tar_of(tmp_path / "train" / "n0.tar", {"0.png": PNGS[0]})
    assert data.open(tmp_path).format == "images"
    with pytest.raises(DataError, match=r"must hold \.tar files, and no folders beside them"):
        data.open(tmp_path, format="tar")


def test_what_cannot_be_opened_together(tmp_path: Path) -> None:
    (path,) = shards_of(tmp_path, "a.tar")
    (tmp_path / "b.csv").write_text("1,2\n")
    with pytest.raises(InputError, match=r"where all are tars. Received: .*b\.csv, csv; open it"):
        data.open([path, tmp_path / "b.csv"])
    with pytest.raises(InputError, match=r"at least one file is wanted.*none-\*\.tar"):
        data.open(tmp_path / "none-*.tar")
    shards_of(tmp_path / "mixed", "a.tar")
    shards_of(tmp_path / "mixed", "b.tar", word="n{}")
    with pytest.raises(InputError, match=r"classes by number, or all by name.*0 and n0"):
        data.open(tmp_path / "mixed")


def test_a_damaged_picture_is_named(tmp_path: Path) -> None:
    files = {"0.png": PNGS[0], "0.cls": b"0", "1.png": PNGS[1][:99], "1.cls": b"0"}
    path = tar_of(tmp_path / "a.tar", files)
    opened = data.open(path, size=(4, 4))
    with pytest.raises(DataError, match=r"a\.tar \(row 1, .*must be a whole image") as caught:
        opened.x.rows(np.array([0, 1]))
    assert "\n" not in str(caught.value)
    path.write_bytes(path.read_bytes()[:700])
    with pytest.raises(DataError, match=r"a\.tar \(row 0, .* must have \d+ bytes"):
        opened.x.rows(np.array([0]))


def test_shards_become_hdf5(tmp_path: Path) -> None:
    shards_of(tmp_path, "a.tar", "b.tar", word="n{}")
    convert(data.open(tmp_path), tmp_path / "all.h5")
    with data.open(tmp_path / "all.h5") as converted:
        assert np.array_equal(converted.x[:], PIXELS)
        assert converted.y[:4].tolist() == [0, 1, 2, 0]
