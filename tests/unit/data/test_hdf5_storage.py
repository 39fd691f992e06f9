"""HDF5 files of several parts: links, virtual and external storage, filters, and who wrote them."""

from __future__ import annotations

import fcntl
import re
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from h5py import h5d, h5p, h5s, h5t

from matex import data
from matex.data.arrays import as_table
from matex.data.convert import convert
from matex.data.hdf5_heap import endless_heap
from matex.errors import DataError, InputError

X = np.arange(6.0).reshape(3, 2)


# ---------------------------------------------------------------- links


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["deep/x"] = X + 100
    path = tmp_path / "data.h5"
    with h5py.File(path, "w") as file:
        file["run/x"] = X
        file["again"] = file["run/x"]
        file["soft"] = h5py.SoftLink("/run/x")
        file["latest"] = h5py.SoftLink("/run")
        file["run/up"] = file["/"]
        file["outside"] = h5py.ExternalLink("other.h5", "/deep/x")
        file["folder"] = h5py.ExternalLink("other.h5", "/deep")
        file["gone"] = h5py.SoftLink("/nowhere")
        file["lost"] = h5py.ExternalLink("absent.h5", "/x")
        file["round"] = h5py.SoftLink("/round")
        file["type"] = np.dtype("i4")
    return path


def test_a_data_set_has_all_its_names(linked: Path) -> None:
    with (linked.parent / "other.h5").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        opened = data.open(linked)
    with opened:
        assert sorted(opened) == ["again", "folder/x", "outside", "run/x", "soft"]
        for name in ("again", "run/x", "soft"):
            assert opened[name] is opened.again
            assert np.array_equal(opened[name], X)
        assert opened.outside is opened["folder/x"]
        assert np.array_equal(opened.outside, X + 100)
        assert opened.notes["soft"] == "the same as again"
        assert opened.notes["outside"] == "the same as folder/x"
        assert "other.h5" in opened.notes["folder/x"]


def test_links_that_lead_nowhere_or_back_are_told(linked: Path) -> None:
    with data.open(linked) as opened:
        for name, words in {
            "gone": "a link to /nowhere, which cannot be followed",
            "lost": "a link to /x in absent.h5, which cannot be followed",
            "round": "too many links",
            "latest": "the same group as run",
            "run/up": "the same group as /",
        }.items():
            assert words in opened.notes[name]


def test_second_names_are_converted_once(linked: Path, tmp_path: Path) -> None:
    with data.open(linked) as opened:
        convert(opened, tmp_path / "out.h5")
    with data.open(tmp_path / "out.h5") as written:
        assert sorted(written) == ["outside", "soft"]


# ---------------------------------------------------------------- virtual data sets


@pytest.fixture
def virtual(tmp_path: Path) -> Path:
    for number in range(3):
        with h5py.File(tmp_path / f"part{number}.h5", "w") as file:
            file["x"] = X + number
    layout = h5py.VirtualLayout((9, 2), "f8")
    short = h5py.VirtualLayout((5, 2), "f8")
    nested = h5py.VirtualLayout((9, 2), "f8")
    for number in range(3):
        layout[3 * number : 3 * number + 3] = h5py.VirtualSource(f"part{number}.h5", "x", X.shape)
    short[:3] = h5py.VirtualSource("part0.h5", "x", X.shape)
    nested[:] = h5py.VirtualSource(".", "whole", (9, 2))
    path = tmp_path / "data.h5"
    with h5py.File(path, "w") as file:
        file["own"] = X
        file.create_virtual_dataset("whole", layout)
        file.create_virtual_dataset("nested", nested)
        file.create_virtual_dataset("short", short, fillvalue=-7)
        by_number = h5p.create(h5p.DATASET_CREATE)
        space = h5s.create_simple((3, 2), (h5s.UNLIMITED, 2))
        space.select_hyperslab((0, 0), (h5s.UNLIMITED, 1), (3, 1), (3, 2))
        by_number.set_virtual(space, b"part%b.h5", b"x", h5s.create_simple(X.shape))
        whole = h5s.create_simple((3, 2), (h5s.UNLIMITED, 2))
        h5d.create(file.id, b"numbered", h5t.IEEE_F64LE, whole, by_number)
    return path


@pytest.mark.parametrize(
    "damage", [(16, bytes(16)), (24, (2**64 - 16).to_bytes(8, "little"))], ids=["zero", "backward"]
)
def test_a_heap_that_libhdf5_would_read_without_end_is_refused(
    virtual: Path, damage: tuple[int, bytes]
) -> None:
    offset, values = damage
    content = bytearray(virtual.read_bytes())
    at = content.index(b"GCOL")
    content[at + offset : at + offset + len(values)] = values
    whole = virtual.with_name("part3.h5")
    with h5py.File(whole, "w") as file:
        file["link"] = h5py.ExternalLink("data.h5", "own")
        layout = h5py.VirtualLayout(X.shape, "f8")
        layout[:] = h5py.VirtualSource("data.h5", "own", X.shape)
        file.create_virtual_dataset("whole", layout)
        file["own"] = X
    assert endless_heap(virtual) is None and endless_heap(whole) is None
    with data.open(whole) as opened:
        assert sorted(opened) == ["link", "own", "whole"]
    virtual.write_bytes(content)
    with pytest.raises(DataError, match=f"a heap at byte {at} in which an object has no length"):
        data.open(virtual)
    with data.open(whole) as opened:
        assert list(opened) == ["own"]
        assert "comes to no end" in opened.notes["link"]
        assert "comes to no end" in opened.notes["whole"]


def test_virtual_data_sets_are_read_where_their_sources_are(
    virtual: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    expected = np.concatenate([X, X + 1, X + 2])
    with data.open(virtual) as opened:
        for name in ("whole", "nested", "numbered"):
            assert np.array_equal(opened[name], expected)
        assert np.array_equal(opened.short[3:], np.full((2, 2), -7))
        assert "4 of 10 values have no source: read as the fill value -7" in opened.notes["short"]


def cut(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["x"] = X[:2]


def rename_inside(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        file.move("x", "y")


MISSING: dict[str, tuple[Callable[[Path], None], str]] = {
    "file": (Path.unlink, "source x in part1.h5 is not there; copy the files"),
    "data set": (rename_inside, "source x in part1.h5 is not there"),
    "rows": (cut, r"source x in part1.h5 has the shape \(2, 2\), which does not fit"),
    "all of it": (lambda path: path.write_bytes(b"no"), "part1.h5 cannot be opened"),
}


@pytest.mark.parametrize("case", MISSING)
def test_a_virtual_data_set_without_a_source_is_not_read(case: str, virtual: Path) -> None:
    spoil, words = MISSING[case]
    spoil(virtual.parent / "part1.h5")
    with data.open(virtual) as opened:
        assert {"own", "short"} <= set(opened) <= {"own", "short", "numbered"}
        assert re.search(words, opened.notes["whole"])
        assert re.search(rf"source whole in \. cannot be read \(.*{words}", opened.notes["nested"])
    with h5py.File(virtual) as file, pytest.raises(DataError, match=f"whole must be.*{words}"):
        as_table(file["whole"], "x")


def test_numbered_sources_have_no_gap(virtual: Path) -> None:
    """libhdf5 would end the data set before the gap, as if there were no more."""
    (virtual.parent / "part1.h5").unlink()
    with data.open(virtual) as opened:
        assert "numbered" not in opened
        assert "source x in part1.h5 is not there" in opened.notes["numbered"]


def test_a_virtual_data_set_of_a_file_that_is_being_written(tmp_path: Path) -> None:
    layout = h5py.VirtualLayout((6, 2), "f8")
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["x"] = X
        layout[:3] = layout[3:] = h5py.VirtualSource(file["x"])
        file.create_virtual_dataset("twice", layout)
        assert np.array_equal(as_table(file["twice"], "x").rows(np.arange(3, 6)), X)


def test_a_virtual_data_set_of_itself_is_not_read(tmp_path: Path) -> None:
    """libhdf5 1.14.6 ends the process by it."""
    layout = h5py.VirtualLayout((3,), "f8")
    layout[:] = h5py.VirtualSource(".", "x", (3,))
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file.create_virtual_dataset("x", layout)
    with pytest.raises(InputError, match="among its own sources"):
        data.open(tmp_path / "data.h5")


# ---------------------------------------------------------------- values elsewhere, or nowhere


def test_values_in_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    parts = [("a.raw", 8, 16), ("b.raw", 0, h5py.h5f.UNLIMITED)]
    with h5py.File("data.h5", "w") as file:
        file.create_dataset("x", data=X, external=parts)
    with data.open("data.h5") as opened:
        assert np.array_equal(opened.x, X)
        assert opened.notes["x"] == "in a.raw, b.raw"
    whole = Path("b.raw").read_bytes()
    Path("b.raw").write_bytes(whole[:-1])
    with pytest.raises(InputError, match=r"values are in b.raw, which must have 32 .* has 31"):
        data.open("data.h5")
    Path("b.raw").unlink()
    with pytest.raises(InputError, match=r"values are in b.raw, which is not there; .*ORIGIN"):
        data.open("data.h5")


def test_values_that_nobody_wrote_are_told(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file.create_dataset("never", (5,), "i4", fillvalue=3)
        file.create_dataset("some", (5,), "f4", chunks=(2,))[0] = 1
        file.create_dataset("all", data=X, chunks=(2, 2))
    with data.open(tmp_path / "data.h5") as opened:
        assert opened.never[:].tolist() == [3] * 5
        assert "never written: read as the fill value 3" in opened.notes["never"]
        assert "some chunks were never written: read as the fill" in opened.notes["some"]
        assert "written" not in opened.notes["all"]


# ---------------------------------------------------------------- filters

UNKNOWN = 310  # a number that no filter has here


def packed(path: Path, code: int) -> None:
    """``x`` packed by the filter *code*, which is not here: as if gzip's number were another."""
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=X, chunks=(3, 2), compression="gzip")
        file["y"] = X
    content = path.read_bytes()
    mark = b"\1\0\x08\0\1\0\1\0deflate\0"  # number, length of the name, flags, values, name
    assert content.count(mark) == 1
    name = b"Unknown\0" if code == UNKNOWN else b"filter\0\0"
    path.write_bytes(content.replace(mark, code.to_bytes(2, "little") + mark[2:8] + name))


def test_every_filter_that_packs_is_named(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "data.h5", "w") as file:
        how = {"chunks": (3, 2), "shuffle": True}
        file.create_dataset("both", data=np.arange(6).reshape(3, 2), scaleoffset=0, **how)
        file.create_dataset("gzip", data=X, compression="gzip", **how)
        file.create_dataset("none", data=X, **how)
    with data.open(tmp_path / "data.h5") as opened:
        assert opened.notes["both"] == "chunks (3, 2), scale-offset"
        assert opened.notes["gzip"] == "chunks (3, 2), gzip"
        assert opened.notes["none"] == "chunks (3, 2), not compressed"


@pytest.mark.parametrize(
    ("code", "name"), [(32001, "Blosc"), (307, "bzip2"), (32004, "LZ4"), (UNKNOWN, "Unknown")]
)
def test_a_missing_filter_is_named_when_the_file_is_opened(
    code: int, name: str, tmp_path: Path
) -> None:
    path = tmp_path / "data.h5"
    packed(path, code)
    words = rf"filter {name} \({code}\), which is not installed; install hdf5plugin"
    with data.open(path) as opened:
        assert list(opened) == ["y"]
        assert re.search(words, opened.notes["x"])
    with h5py.File(path) as file, pytest.raises(DataError, match=words):
        as_table(file["x"], "x")
    with h5py.File(path, "r+") as file:
        del file["y"]
    with pytest.raises(InputError, match=rf"at least one row. Received: x: .*{words}"):
        data.open(path)


# ---------------------------------------------------------------- what libraries keep there


def test_a_frame_of_pandas(tmp_path: Path) -> None:
    """The frame is written like DataFrame.to_hdf does (pandas 3.1, PyTables 3.11)."""
    with h5py.File(tmp_path / "data.h5", "w") as file:
        frame = file.create_group("df")
        frame.attrs["pandas_type"] = np.bytes_("frame")
        frame["axis0"] = np.array([b"a", b"b", b"t"])
        frame["axis1"] = np.arange(3)
        frame["block0_items"] = np.array([b"a", b"b"])
        frame["block0_values"] = X
        frame["block1_items"] = np.array([b"t"])
        frame["block1_values"] = np.arange(3)[:, None]
        frame["block1_values"].attrs["value_type"] = np.bytes_("datetime64[us]")
        frame["block2_values"] = np.zeros((1, 1))
        frame["block2_values"].attrs["shape"] = np.bytes_("(I1\nI0\ntp0\n.")
        file["mine/axis1"] = X
    with data.open(tmp_path / "data.h5") as opened:
        assert list(opened) == ["df/block0_values", "df/block1_values", "mine/axis1"]
        assert "columns a, b" in opened.notes["df/block0_values"]
        assert "columns t, datetime64[us] as integers" in opened.notes["df/block1_values"]
        assert "labels of pandas" in opened.notes["df/axis1"]
        assert "without values" in opened.notes["df/block2_values"]


def test_a_table_of_pandas(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "data.h5", "w") as file:
        frame = file.create_group("df")
        frame.attrs["pandas_type"] = np.bytes_("frame_table")
        frame["table"] = np.zeros(5, [("index", "i8"), ("values_block_0", "f8", (2,))])
        index = frame.create_group("_i_table")
        index.attrs["CLASS"] = np.bytes_("TINDEX")
        index["index/sortedLR"] = np.arange(9)
    with pytest.raises(InputError, match=r"df/table: a table of pandas with 5.*read_hdf.*'/df'"):
        data.open(tmp_path / "data.h5")
    with h5py.File(tmp_path / "data.h5", "r+") as file:
        file["x"] = X
    with data.open(tmp_path / "data.h5") as opened:
        assert list(opened) == ["x"]
        assert "index that PyTables made" in opened.notes["df/_i_table"]
