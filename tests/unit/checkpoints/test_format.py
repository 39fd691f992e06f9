"""The file as others see it: h5py, a person with `head`, somebody who counts bytes."""

from __future__ import annotations

import re

import h5py
import numpy as np
import pytest

from checkpoints import InvalidSnapshot, Snapshot, Store
from checkpoints.image import MetadataImage
from checkpoints.writer import encode


def small() -> Snapshot:
    return Snapshot(
        weights={
            "net/dense/kernel": np.arange(6, dtype=np.float32).reshape(2, 3),
            "net/dense/bias": np.zeros(3, np.float32),
            "net": np.array([True, False]),
        },
        optimizer={"adam/iteration": np.int64(7), "empty": np.zeros((0, 4))},
        cursor={"seed": 5, "fit": 0, "epoch": 2, "samples": 96, "step": 12},
        architecture='{"class_name": "Sequential"}',
        extra={"auc/true_positives": np.ones(4, np.float32)},
    )


@pytest.fixture
def path(tmp_path):
    return Store(tmp_path, software={"matex": "1.2.3"}).save(small())


def test_h5py_reads_every_value_at_its_path(path):
    with h5py.File(path, "r") as file:
        assert set(file) == {
            *("manifest", "architecture", "weights", "optimizer", "cursor", "extra")
        }
        assert file["architecture"][()] == small().architecture.encode()
        assert file["weights/net/dense/kernel"][()].tolist() == [[0, 1, 2], [3, 4, 5]]
        assert file["weights/net%array"][()].tolist() == [True, False]
        assert file["weights/net%array"].dtype == bool
        assert file["optimizer/adam/iteration"][()] == 7
        assert file["optimizer/empty"].shape == (0, 4)
        assert {key: int(value[()]) for key, value in file["cursor"].items()} == small().cursor
        assert file["extra/auc/true_positives"][()].tolist() == [1, 1, 1, 1]


def test_attributes_document_the_file(path):
    with h5py.File(path, "r") as file:
        assert file.userblock_size == 512
        assert int(file.attrs["format_version"]) == 1
        assert file.attrs["format"] == b"named arrays of a training run"
        assert re.fullmatch(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", file.attrs["created"])
        software = file.attrs["software"].decode()
        assert f"h5py {h5py.__version__}" in software
        assert software.endswith("matex 1.2.3")
        kernel = file["weights/net/dense/kernel"].attrs
        assert (kernel["dtype"], int(kernel["position"])) == (b"float32", 0)
        assert int(file["weights/net%array"].attrs["position"]) == 2
        for section in ("weights", "optimizer", "cursor", "extra"):
            assert len(file[section].attrs["description"]) > 10


def test_nothing_is_compressed_chunked_or_elsewhere(path):
    def check(_name: str, item: h5py.HLObject) -> None:
        if isinstance(item, h5py.Dataset):
            assert item.chunks is None
            assert item.compression is None
            assert not item.is_virtual
            assert item.external is None

    with h5py.File(path, "r") as file:
        file.visititems(check)


def test_the_first_block_is_text_for_people(path):
    block = path.read_bytes()[:512].decode("ascii")
    assert block.endswith("\n")
    assert f"file: {path.stat().st_size} bytes" in block


def test_content_is_that_of_the_state_not_of_the_file(tmp_path):
    def content(snapshot: Snapshot, **options) -> bytes:
        with h5py.File(Store(tmp_path, **options).save(snapshot), "r") as file:
            return file.attrs["content"]

    first = content(small())
    assert first == content(small(), software={"other": "1"})
    cursor = {**small().cursor, "samples": 97}
    assert first != content(Snapshot(weights=small().weights, cursor=cursor))
    one, two = {"a": np.zeros(2)}, {"b": np.zeros(2)}
    assert content(Snapshot(weights={**one, **two}, cursor={"step": 1})) != content(
        Snapshot(weights={**two, **one}, cursor={"step": 1})
    )


def test_overhead_of_a_realistic_state_is_below_two_percent():
    sizes = [(28, 300), (300,), (300, 300), (300,), (300, 300), (300,), (300, 1), (1,)]
    weights = {f"sequential/dense_{n}": np.ones(s, np.float32) for n, s in enumerate(sizes)}
    slots = {
        f"adam/sequential_dense_{n}_{slot}": np.ones(s, np.float32)
        for slot in ("momentum", "velocity")
        for n, s in enumerate(sizes)
    }
    snapshot = Snapshot(
        weights=weights, optimizer=slots, cursor={"step": 1}, architecture="{}" * 500
    )
    assert encode(snapshot).nbytes <= 1.02 * snapshot.nbytes


def test_a_thousand_arrays_in_one_group():
    weights = {f"layer_{n}": np.full(1000, n, np.float32) for n in range(1000)}
    pieces = encode(Snapshot(weights=weights, cursor={"step": 1})).pieces
    assert sum(map(len, pieces)) <= 1.25 * 1000 * 4000


def test_arrays_are_not_copied():
    array = np.ones((64, 64), np.float32)
    pieces = encode(Snapshot(weights={"x": array}, cursor={"step": 0})).pieces
    assert any(np.shares_memory(np.frombuffer(piece, np.uint8), array) for piece in pieces)


def test_too_much_text_about_software_is_refused():
    with pytest.raises(InvalidSnapshot, match=r"Received: \d+ bytes"):
        encode(small(), software={"x" * 3000: "1"})


def test_image_is_a_file_that_forgets_what_lies_beyond_its_limit():
    image = MetadataImage()
    image.write(b"0123")
    image.limit = 6
    image.seek(2)
    image.write(b"abcdefgh")
    assert bytes(image.data) == b"01abcd"
    assert (image.dropped, image.end, image.tell()) == ([(6, 10)], 10, 10)
    image.seek(-6, 2)
    assert image.read(5) == b"cd\0\0\0"
    assert image.truncate(3) == 3
    assert bytes(image.data) == b"01a"
