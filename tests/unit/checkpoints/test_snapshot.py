"""A snapshot refuses what it cannot hold, and comes back bit for bit and in order."""

from __future__ import annotations

import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import checkpoints
from checkpoints import InvalidSnapshot, Snapshot, read_snapshot
from checkpoints.dtypes import FOREIGN, NATIVE, stored_name
from checkpoints.names import link_paths
from checkpoints.writer import encode
from ci.patience import patience

NAMES = st.text(st.sampled_from("ab/.%\0é") | st.characters(exclude_categories=["Cs"]), max_size=12)


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray:
    """Any bits: NaNs with payloads, subnormals, negative zeros."""
    dtype = np.dtype(draw(st.sampled_from(NATIVE)))
    shape = draw(st.lists(st.integers(0, 4), max_size=4).map(tuple))
    size = dtype.itemsize * int(np.prod(shape, dtype=int))
    raw = np.frombuffer(draw(st.binary(min_size=size, max_size=size)), np.uint8)
    if dtype.name == "bool":
        raw = raw & 1
    return raw.view(dtype).reshape(shape)


SECTION = st.dictionaries(NAMES, arrays(), max_size=6)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("snapshot") / "file.h5"


def through_a_file(snapshot: Snapshot, path: Path) -> Snapshot:
    path.write_bytes(b"".join(encode(snapshot).pieces))
    return read_snapshot(path)


def assert_same(left: Snapshot, right: Snapshot) -> None:
    for section in ("weights", "optimizer", "extra"):
        one, other = getattr(left, section), getattr(right, section)
        assert list(one) == list(other)
        for name in one:
            assert one[name].dtype == other[name].dtype
            assert one[name].shape == other[name].shape
            assert one[name].tobytes() == other[name].tobytes()
    assert list(left.cursor.items()) == list(right.cursor.items())
    assert left.architecture == right.architecture


@given(
    weights=SECTION,
    optimizer=SECTION,
    extra=SECTION,
    cursor=st.dictionaries(NAMES, st.integers(-(2**63), 2**63 - 1), max_size=4),
    step=st.integers(0, 10**18 - 1),
    architecture=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
)
def test_round_trip_is_exact_and_keeps_order(
    path, weights, optimizer, extra, cursor, step, architecture
):
    snapshot = Snapshot(
        weights=weights,
        optimizer=optimizer,
        extra=extra,
        cursor={**cursor, "step": step},
        architecture=architecture,
    )
    assert_same(snapshot, through_a_file(snapshot, path))


@pytest.mark.parametrize("name", NATIVE)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (5,), (2, 3)])
def test_every_native_dtype_and_kind_of_shape(path, name, shape):
    array = np.arange(int(np.prod(shape, dtype=int))).reshape(shape).astype(name)
    snapshot = Snapshot(weights={"x": array}, cursor={"step": 0})
    assert_same(snapshot, through_a_file(snapshot, path))


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_dtype_with_its_package(path, name):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    array = np.arange(6).reshape(2, 3).astype(getattr(ml_dtypes, name))
    snapshot = Snapshot(weights={"x": array, "scalar": array[0, 1]}, cursor={"step": 0})
    assert_same(snapshot, through_a_file(snapshot, path))


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_dtype_without_its_package_is_bits_with_a_name(path, name, monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)  # import raises ImportError
    bits = np.arange(1, 7, dtype=FOREIGN[name]).reshape(2, 3)
    snapshot = Snapshot(
        weights={"x": bits.view([(name, FOREIGN[name])]).reshape(2, 3)}, cursor={"step": 0}
    )
    loaded = through_a_file(snapshot, path)
    assert loaded.weights["x"].dtype.names == (name,)
    assert np.array_equal(loaded.weights["x"][name], bits)
    assert loaded.weights["x"][name].dtype == bits.dtype
    assert_same(loaded, through_a_file(loaded, path))


def test_bits_become_the_foreign_dtype_where_its_package_is(path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    bits = np.array([0x3F80, 0xC000, 0x7FC1], np.uint16).view([("bfloat16", np.uint16)])
    loaded = through_a_file(Snapshot(weights={"x": bits}, cursor={"step": 0}), path).weights["x"]
    assert loaded.dtype == ml_dtypes.bfloat16
    assert loaded[:2].astype(float).tolist() == [1.0, -2.0]
    assert loaded.tobytes() == bits.tobytes()


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12.0).reshape(3, 4).T,
        np.arange(12.0)[::-3],
        np.asfortranarray(np.ones((3, 2), np.float32)),
        np.broadcast_to(np.float16(2), (2, 2)),
    ],
)
def test_arrays_of_any_memory_layout_are_saved(path, array):
    loaded = through_a_file(Snapshot(weights={"x": array}, cursor={"step": 0}), path).weights["x"]
    assert loaded.dtype == array.dtype
    assert np.array_equal(loaded, array)
    assert loaded.flags.writeable


def test_big_endian_arrays_come_back_with_their_values(path):
    array = np.array([1, 2, 70000], ">i4")
    loaded = through_a_file(Snapshot(weights={"x": array}, cursor={"step": 0}), path).weights["x"]
    assert loaded.tolist() == [1, 2, 70000]
    assert loaded.dtype == np.int32


def test_numpy_scalars_become_arrays_of_no_dimension():
    snapshot = Snapshot(weights={"x": np.float32(2)}, cursor={"step": np.int64(3)})
    assert snapshot.weights["x"].shape == ()
    assert type(snapshot.cursor["step"]) is int
    assert (snapshot.step, snapshot.nbytes) == (3, 4)


def test_a_snapshot_holds_arrays_but_not_the_callers_dictionary():
    array, weights = np.ones(3), {}
    weights["x"] = array
    snapshot = Snapshot(weights=weights, cursor={"step": 0})
    weights["y"] = array
    assert list(snapshot.weights) == ["x"]
    assert np.shares_memory(snapshot.weights["x"], array)
    with pytest.raises(TypeError):
        snapshot.weights["z"] = array
    with pytest.raises(AttributeError):
        snapshot.architecture = "{}"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"weights": {"w": [1.0]}}, "weights['w']. Received: list"),
        ({"weights": {"w": np.array(["a"])}}, "dtype=<U1"),
        ({"weights": {"w": np.array([None])}}, "dtype=object"),
        ({"weights": {"w": np.array([1], "M8[s]")}}, "dtype=datetime64"),
        ({"weights": {"w": np.zeros(1, [("a", "f4"), ("b", "f4")])}}, "dtype=[("),
        ({"weights": {"w": np.zeros(1, [("a", "f4")])}}, "dtype=[("),
        ({"weights": {"w": np.ma.zeros(1)}}, "MaskedArray"),
        ({"weights": {"w": np.zeros((1,) * 33)}}, "ndim=33"),
        ({"weights": {"w": np.array([2, 1], np.uint8).view(bool)}}, "by a view of other numbers"),
        ({"cursor": {"step": 10**18}}, "of at most 18 digits"),
        ({"weights": {"w": np.zeros(1, np.longdouble)}}, "dtype=float128"),
        ({"optimizer": {3: np.zeros(1)}}, "a name must be a str. Received: optimizer[3]"),
        ({"extra": {"\ud800": np.zeros(1)}}, "valid Unicode"),
        ({"extra": {"n" * 1025: np.zeros(1)}}, "at most 1024 bytes"),
        ({"cursor": {}}, "step >= 0"),
        ({"cursor": {"step": -1}}, "step >= 0"),
        ({"cursor": {"step": 1.0}}, "1.0 (float)"),
        ({"cursor": {"step": 1, "seed": 2**63}}, "64 bits"),
        ({"architecture": b"{}"}, "Received: bytes"),
        ({"architecture": "\0"}, "NUL"),
        ({"architecture": "\ud800"}, "surrogates"),
    ],
)
def test_refused_with_one_line_that_says_what_was_received(changes, words):
    with pytest.raises(InvalidSnapshot) as caught:
        Snapshot(**{"weights": {}, "cursor": {"step": 0}, **changes})
    message = str(caught.value)
    assert words in message
    assert "Received:" in message
    assert "\n" not in message
    assert len(message) < 400


@given(st.lists(NAMES, unique=True, max_size=12))
def test_paths_differ_and_never_put_a_group_and_an_array_in_one_place(names):
    paths = link_paths(names)
    assert len(set(paths)) == len(names)
    groups = {path[:end] for path in paths for end, char in enumerate(path) if char == "/"}
    assert not groups & set(paths)
    for path in paths:
        assert "\0" not in path
        assert all(segment not in ("", ".") for segment in path.split("/"))


def test_plain_names_are_their_own_paths():
    names = ["sequential/dense/kernel", "adam/iteration", "x", "é ü"]
    assert link_paths(names) == names
    assert link_paths(["a", "a/b"]) == ["a%array", "a/b"]


@pytest.mark.parametrize("name", ["/" * 300, "a" * 1024, "\0" * 1024, "é" * 512])
def test_extreme_names_of_weights_are_saved(path, name):
    snapshot = Snapshot(weights={name: np.ones(2)}, cursor={"step": 0})
    assert_same(snapshot, through_a_file(snapshot, path))


def test_stored_names_of_plain_types_are_those_of_numpy():
    assert [stored_name(np.dtype(name)) for name in NATIVE] == list(NATIVE)


def test_all_is_exact():
    public = {
        name
        for name, value in vars(checkpoints).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert public == set(checkpoints.__all__)
    assert list(checkpoints.__all__) == sorted(checkpoints.__all__)


def test_needs_neither_mpi_nor_tensorflow_nor_the_other_packages():
    script = (
        "import sys, checkpoints\n"
        "others = {'mpi4py', 'tensorflow', 'keras', 'ml_dtypes', 'ft', 'matex'}\n"
        "print(sorted(others & set(sys.modules)))"
    )
    root = Path(checkpoints.__file__).parents[1]
    run = subprocess.run(
        [sys.executable, "-c", script],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=patience(60),
        check=False,
    )
    assert (run.stdout, run.returncode) == ("[]\n", 0), run.stderr
