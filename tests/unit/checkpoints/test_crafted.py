"""No crafted file does more than be refused, even under a seal that is right."""

from __future__ import annotations

import functools
import json
import tracemalloc
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoints import (
    CheckpointError,
    DamagedSnapshot,
    IncompatibleSnapshot,
    Snapshot,
    read_snapshot,
)
from checkpoints.manifest import Entry, content_digest
from checkpoints.seal import SIZE, Seal, make_seal, parse_seal
from checkpoints.writer import encode


@functools.cache  # HDF5 writes the time into it, so a second one may differ
def whole_file() -> bytes:
    snapshot = Snapshot(
        weights={"a/kernel": np.arange(4, dtype=np.float32), "b": np.array([True, False])},
        optimizer={"iteration": np.int64(3)},
        cursor={"step": 8, "samples": 5},
        architecture='{"a": 1}',
    )
    return b"".join(encode(snapshot).pieces)


def seal_of(content: bytes) -> Seal:
    seal = parse_seal(content[:SIZE])
    assert seal is not None
    return seal


def rows_of(content: bytes) -> list[dict]:
    seal = seal_of(content)
    text = content[seal.manifest_start : seal.manifest_end]
    return [json.loads(line) for line in text.splitlines()]


def sealed(metadata: bytes, manifest: bytes, arrays: bytes) -> bytes:
    """A file whose seal is right whatever its parts are: what an attacker would make."""
    seal = make_seal(metadata, manifest, array_bytes=len(arrays))
    return seal.block() + metadata + manifest + arrays


def with_rows(rows: list[dict], arrays: bytes | None = None) -> bytes:
    """The whole file with other rows in its manifest, their digest made right if possible."""
    content = whole_file()
    seal = seal_of(content)
    try:
        entries = [Entry(**{**row, "shape": tuple(row["shape"])}) for row in rows[1:]]
        rows = [{**rows[0], "content": content_digest(entries)}, *rows[1:]]
    except (TypeError, KeyError):
        pass  # too malformed to have a digest; the reader must stop before it compares
    manifest = b"".join(json.dumps(row, separators=(",", ":")).encode() + b"\n" for row in rows)
    rest = content[seal.manifest_end :] if arrays is None else arrays
    return sealed(content[SIZE : seal.manifest_start], manifest, rest)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file.h5"


def test_the_untouched_file_loads_also_when_sealed_again(path):
    content = whole_file()
    path.write_bytes(content)
    assert read_snapshot(path).weights["a/kernel"].tolist() == [0, 1, 2, 3]
    assert with_rows(rows_of(content)) == content


def edit(index: int, **changes):
    def apply(rows: list[dict]) -> list[dict]:
        return [{**row, **changes} if n == index else row for n, row in enumerate(rows)]

    return apply


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (edit(0, format_version=2), "format_version=2 where 1 is known"),
        (edit(0, format="other"), "format='other'"),
        (edit(2, shape=[2**62]), "beyond any memory"),
        (edit(2, shape=[2**40, 0, 2**40]), "beyond any memory"),
        (edit(2, shape=[10**9]), "do not fill the file"),
        (edit(2, shape=[3]), "do not fill the file"),
        (edit(2, shape=[-4]), "malformed shape"),
        (edit(2, shape=[4.0]), "malformed shape"),
        (edit(2, shape=[True, 4]), "malformed shape"),
        (edit(2, shape=4), "malformed shape"),
        (edit(2, shape=[1] * 60 + [4]), "at most 32 dimensions"),
        (edit(2, dtype="object"), "unknown dtype 'object'"),
        (edit(2, dtype="text"), "text in the wrong place"),
        (edit(1, dtype="uint8"), "text in the wrong place"),
        (edit(1, shape=[2, 4]), "malformed shape"),
        (edit(2, crc32="0"), "malformed crc32"),
        (edit(2, section="elsewhere"), "unknown section"),
        (edit(2, section="extra"), "sections are not"),
        (edit(2, name=7), "not named by text"),
        (edit(2, name="b"), "one name"),
        (edit(2, name="\ud800"), "valid Unicode"),
        (edit(2, path="/etc/passwd"), "other fields"),
        (edit(5, dtype="float64"), "other things than integers"),
        (edit(5, name="steps"), "step >= 0"),
        (lambda rows: [rows[0], *rows[2:]], "sections are not"),
        (lambda rows: rows[:1], "sections are not"),
        (lambda rows: rows[:-1], "do not fill the file"),
        (lambda rows: [*rows, rows[-1]], "one name"),
        (lambda rows: [*rows, {**rows[-1], "name": "n" * 20_000}], "too long"),
        (lambda rows: [*rows[:2], [1], *rows[2:]], "not an object"),
    ],
)
def test_crafted_manifest_is_refused(path, change, words):
    path.write_bytes(with_rows(change(rows_of(whole_file()))))
    tracemalloc.start()
    try:
        with pytest.raises(IncompatibleSnapshot) as caught:
            read_snapshot(path)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        (b"", "does not end with a line"),
        (b"{}", "does not end with a line"),
        (b"\n", "not JSON"),
        (b"[" * 10_000 + b"\n", "not JSON"),
        (b"\xff\n", "not JSON"),
        (b'{"format": ' + b"9" * 5000 + b"}\n", "not JSON"),
        (b"{}\n", "format=None"),
    ],
)
def test_manifest_that_is_none_is_refused(path, manifest, words):
    path.write_bytes(sealed(b"", manifest, b""))
    with pytest.raises(IncompatibleSnapshot, match=words):
        read_snapshot(path)


def test_manifest_digest_is_compared(path):
    content = whole_file()
    rows = rows_of(content)
    rows[0]["content"] = "0" * 64
    manifest = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    path.write_bytes(sealed(b"", manifest, content[seal_of(content).manifest_end :]))
    with pytest.raises(IncompatibleSnapshot, match="their digest"):
        read_snapshot(path)


@pytest.mark.parametrize(
    ("row", "offset", "value", "words"),
    [
        (3, len('{"a": 1}') + 16, b"\2", "weights['b'] is not boolean"),
        (1, 0, b"\xff", "utf-8"),
        (1, 3, b"\0", "NUL"),
    ],
)
def test_crafted_values_are_refused(path, row, offset, value, words):
    content = whole_file()
    rows, arrays = rows_of(content), bytearray(content[seal_of(content).manifest_end :])
    arrays[offset : offset + 1] = value
    first = {1: 0, 3: len('{"a": 1}') + 16}[row]
    size = {1: len('{"a": 1}'), 3: 2}[row]
    rows[row]["crc32"] = zlib.crc32(arrays[first : first + size])
    path.write_bytes(with_rows(rows, bytes(arrays)))
    with pytest.raises(IncompatibleSnapshot) as caught:
        read_snapshot(path)
    assert words in str(caught.value)


def test_seal_that_points_elsewhere_is_refused(path):
    content = whole_file()
    seal = seal_of(content)
    for start, end in ((0, 10), (seal.manifest_end, seal.manifest_start), (600, 10**17)):
        crafted = Seal(
            file_bytes=len(content), manifest_start=start, manifest_end=end, digest=seal.digest
        )
        path.write_bytes(crafted.block() + content[SIZE:])
        with pytest.raises(DamagedSnapshot, match="outside"):
            read_snapshot(path)


def add_soft_link(file: h5py.File, _other: Path) -> None:
    file["weights/more"] = h5py.SoftLink("/weights/b")


def add_external_link(file: h5py.File, other: Path) -> None:
    file["weights/more"] = h5py.ExternalLink(other, "/secret")


def add_virtual(file: h5py.File, other: Path) -> None:
    layout = h5py.VirtualLayout((3,), "f8")
    layout[:] = h5py.VirtualSource(other, "secret", (3,))
    file.create_virtual_dataset("weights/more", layout)


def add_filtered(file: h5py.File, _other: Path) -> None:
    file.create_dataset("weights/more", data=np.zeros(10_000), compression="gzip")


def add_external_storage(file: h5py.File, other: Path) -> None:
    file.create_dataset("weights/more", (3,), "f8", external=[(str(other), 0, 24)])


def add_huge(file: h5py.File, _other: Path) -> None:
    file.create_dataset("weights/more", (2**50,), "f8", chunks=(1024,))


@pytest.mark.parametrize(
    "add",
    [add_soft_link, add_external_link, add_virtual, add_filtered, add_external_storage, add_huge],
)
def test_what_hdf5_could_follow_or_run_is_refused_sealed_or_not(path, add):
    secret = path.with_name("secret.h5")
    with h5py.File(secret, "w") as file:
        file["secret"] = np.ones(3)
    content = whole_file()
    path.write_bytes(content)
    with h5py.File(path, "r+") as file:
        add(file, secret)
    changed = path.read_bytes()
    assert changed != content
    with pytest.raises(DamagedSnapshot):
        read_snapshot(path)
    seal = seal_of(content)
    metadata, manifest = changed[SIZE : seal.manifest_start], content[seal.manifest_start :]
    manifest = manifest[: seal.manifest_end - seal.manifest_start]
    path.write_bytes(sealed(metadata, manifest, changed[seal.manifest_end :]))
    with pytest.raises(CheckpointError):
        read_snapshot(path)


@settings(max_examples=2000)
@given(data=st.data())
def test_any_mutation_under_a_right_seal_is_refused_or_harmless(tmp_path_factory, data):
    content = whole_file()
    seal = seal_of(content)
    manifest = bytearray(content[seal.manifest_start : seal.manifest_end])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(manifest)))
        cut = data.draw(st.integers(0, 3))
        manifest[place : place + cut] = data.draw(st.binary(max_size=4))
    path = tmp_path_factory.getbasetemp() / "mutated.h5"
    path.write_bytes(sealed(b"", bytes(manifest), content[seal.manifest_end :]))
    try:
        loaded = read_snapshot(path)
    except CheckpointError as error:
        assert "\n" not in str(error)
    else:
        # Only what describes the file may differ: the digest of the content holds the rest.
        assert loaded.weights["a/kernel"].tolist() == [0, 1, 2, 3]
        assert dict(loaded.cursor) == {"step": 8, "samples": 5}
