"""Training from files: the same losses in plain Keras, on one rank, on three, and after deaths."""

from __future__ import annotations

import io
import json
import struct
import tarfile
from pathlib import Path

import h5py
import numpy as np
import pytest
import tensorflow as tf

from matex.errors import DataError
from matex.sources import select
from tests.train.runs import PLAIN, SCRIPTS, execute, faults, matex_run, relative_differences

ROWS = 150
KINDS = ("contiguous", "chunked", "csv", "idx", "images", "tfrecord", "tar")
STEPS = 10  # of a file: two epochs of five


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Files with the same samples, one in every format; all are read-only."""
    root = tmp_path_factory.mktemp("files")
    generator = np.random.default_rng(0)
    y = np.sort(generator.integers(0, 3, ROWS)).astype(np.uint8)  # as a folder a class sorts them
    x = generator.integers(0, 128, (ROWS, 8, 6, 3), np.uint8) + (40 * y[:, None, None, None])
    x = x.astype(np.uint8)
    with h5py.File(root / "contiguous.h5", "w") as file:
        file["x"], file["y"] = x.astype(np.float64), y
    with h5py.File(root / "chunked.h5", "w") as file:
        file.create_dataset("x", data=x, chunks=(20, 8, 6, 3), compression="gzip")
        file.create_dataset("y", data=y, chunks=(64,), compression="gzip")
    table = np.column_stack([y, x.reshape(ROWS, -1)])
    np.savetxt(root / "data.csv", table, delimiter=",", fmt="%d")
    for name, values in (("images-idx3", x), ("labels-idx1", y)):
        head = struct.pack(f">HBB{values.ndim}I", 0, 8, values.ndim, *values.shape)
        (root / f"train-{name}-ubyte").write_bytes(head + values.tobytes())
    record_file, tar_file = root / "data.tfrecord", root / "data.tar"
    with tf.io.TFRecordWriter(str(record_file)) as writer, tarfile.open(tar_file, "w") as tar:
        for row in range(ROWS):
            png = tf.io.encode_png(x[row]).numpy()
            for name, content in ((f"{row}.png", png), (f"{row}.cls", b"%d" % y[row])):
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
            (root / "images" / str(y[row])).mkdir(parents=True, exist_ok=True)
            (root / "images" / str(y[row]) / f"{row:04d}.png").write_bytes(png)
            named = {
                "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[png])),
                "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[int(y[row])])),
            }
            example = tf.train.Example(features=tf.train.Features(feature=named))
            writer.write(example.SerializeToString())
    for path in root.rglob("*"):
        path.chmod(0o555)
    names = ("contiguous.h5", "chunked.h5", "data.csv", "train-images-idx3-ubyte", "images",
             "data.tfrecord", "data.tar")  # fmt: skip
    return {kind: root / name for kind, name in zip(KINDS, names, strict=True)}


def losses(stdout: str) -> list[list[float]]:
    """Losses by file: the loss of each epoch, then the validation loss of each."""
    assert "readers left: 0" in stdout
    lines = [line for line in stdout.splitlines() if line.startswith("losses ")]
    return [json.loads(line.removeprefix("losses ")) for line in lines]


def assert_equal(found: list[list[float]], wanted: list[list[float]], files: int) -> None:
    """File by file, and all files with each other: they hold the same samples."""
    assert len(found) == len(wanted) == files
    for mine, others in zip(found, wanted, strict=True):
        assert max(relative_differences(mine, others)) < 1e-4
        assert max(relative_differences(mine, wanted[0])) < 1e-4


def test_plain_keras_and_three_ranks(files: dict[str, Path], tmp_path: Path) -> None:
    plain = execute([*PLAIN, SCRIPTS / "read_files.py", *files.values()], directory=tmp_path)
    assert plain.returncode == 0, plain.stderr
    shared = matex_run(tmp_path, "read_files.py", *files.values(), ranks=3)
    assert shared.status == 0, shared.stderr
    assert_equal(losses(shared.stdout), losses(plain.stdout), len(KINDS))
    assert shared.summary["samples_used"] == 2 * ROWS * len(KINDS)


@pytest.mark.slow
def test_shuffled_and_with_ranks_killed(files: dict[str, Path], tmp_path: Path) -> None:
    """One dies while text is read, one while images are decoded ahead."""
    kinds = ("chunked", "csv", "images")
    arguments = ["--shuffle", *(files[kind] for kind in kinds)]
    alone = losses(matex_run(tmp_path, "read_files.py", *arguments, ranks=1).stdout)
    deaths = faults(
        f"kill:rank=0,step={STEPS + 3}",
        f"kill:rank=2,step={2 * STEPS + 2},at=in-exchange",
    )
    shared = matex_run(tmp_path, "read_files.py", *arguments, ranks=3, options=deaths)
    assert shared.status == 0, shared.stderr
    assert_equal(losses(shared.stdout), alone, len(kinds))
    summary = shared.summary
    assert summary["world_size_end"] == 1
    assert summary["samples_lost"] == summary["samples_repeated"] == 0


def test_a_damaged_row_ends_the_run_by_its_name(files: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "damaged.tfrecord"
    content = bytearray(files["tfrecord"].read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)
    outcome = matex_run(tmp_path, "read_files.py", path, ranks=2)
    assert outcome.status == 1
    assert f"{path} (record {ROWS - 1}) must have the checksum" in outcome.stderr
    assert outcome.summary["status"] == "failed"


def test_a_data_set_that_lacks_its_source_is_refused(tmp_path: Path) -> None:
    """Keras would train on its fill value."""
    layout = h5py.VirtualLayout((64, 3), "f4")
    layout[:] = h5py.VirtualSource("absent.h5", "x", (64, 3))
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file.create_virtual_dataset("x", layout)
        file["y"] = np.zeros(64)
    with h5py.File(tmp_path / "data.h5") as file, pytest.raises(DataError, match=r"absent\.h5"):
        select.rows_of(file["x"], file["y"])
