"""Formats by content: idx, CIFAR, netCDF; and files that are not what their names say."""

from __future__ import annotations

import base64
import gzip
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from matex import data
from matex.errors import InputError

TYPES = {np.uint8: 8, np.int8: 9, np.int16: 11, np.int32: 12, np.float32: 13, np.float64: 14}


def idx(values: np.ndarray) -> bytes:
    head = struct.pack(">HBB", 0, TYPES[values.dtype.type], values.ndim)
    sizes = struct.pack(f">{values.ndim}I", *values.shape)
    return head + sizes + values.astype(values.dtype.newbyteorder(">")).tobytes()


def put(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


IMAGES = np.random.default_rng(0).integers(0, 256, (20, 6, 5), np.uint8)
DIGITS = (np.arange(20) % 10).astype(np.uint8)


@pytest.mark.parametrize("packed", ["", ".gz"])
def test_mnist_images_bring_their_labels(packed: str, tmp_path: Path) -> None:
    for part in ("train", "t10k"):
        put(tmp_path / f"{part}-images-idx3-ubyte{packed}", idx(IMAGES))
        put(tmp_path / f"{part}-labels-idx1-ubyte{packed}", idx(DIGITS))
    one = data.open(tmp_path / f"train-images-idx3-ubyte{packed}")
    assert np.array_equal(one.x[[7, 3]], IMAGES[[7, 3]])
    assert np.array_equal(one.y, DIGITS)
    assert one.x.costly == (not packed)
    folder = data.open(tmp_path)
    assert list(folder) == ["x_train", "y_train", "x_test", "y_test"]
    assert np.array_equal(folder.x_test, IMAGES)


@pytest.mark.parametrize("packed", ["", ".gz"])
@given(
    values=st.sampled_from(list(TYPES)).flatmap(
        lambda kind: arrays(kind, st.tuples(st.integers(1, 9), st.integers(1, 4)))
    )
)
def test_idx_of_any_type(
    packed: str, values: np.ndarray, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = put(tmp_path_factory.mktemp("idx") / f"values.idx{packed}", idx(values))
    found = data.open(path).x[:]
    assert np.array_equal(found, values, equal_nan=values.dtype.kind == "f")
    assert found.dtype == values.dtype


def test_real_digits_are_read_as_idx(real_data: Callable[[str], Path], tmp_path: Path) -> None:
    with data.open(real_data("mnist.h5")) as mnist:
        images, labels = mnist.x_test[:500], mnist.y_test[:500]
    put(tmp_path / "t10k-images.idx3-ubyte", idx(images))
    put(tmp_path / "t10k-labels.idx1-ubyte", idx(labels))
    opened = data.open(tmp_path / "t10k-images.idx3-ubyte")
    assert np.array_equal(opened.x, images)
    assert np.array_equal(opened.y, labels)


# ---------------------------------------------------------------- CIFAR

PIXELS = np.random.default_rng(0).integers(0, 256, (12, 32, 32, 3), np.uint8)


def cifar(*labels: np.ndarray) -> bytes:
    planes = PIXELS.transpose(0, 3, 1, 2).reshape(12, -1)
    return np.column_stack([*(column.astype(np.uint8) for column in labels), planes]).tobytes()


def test_cifar_10_becomes_images_with_channels_last(tmp_path: Path) -> None:
    opened = data.open(put(tmp_path / "data_batch_1.bin", cifar(np.arange(12) % 10)))
    assert np.array_equal(opened.x[[5, 2]], PIXELS[[5, 2]])
    assert opened.x[:].flags.c_contiguous
    assert opened.y[:].tolist() == [*range(10), 0, 1]


def test_cifar_100_has_both_labels(tmp_path: Path) -> None:
    put(tmp_path / "train.bin", cifar(np.arange(12), np.arange(12) * 8))
    put(tmp_path / "test.bin", cifar(np.arange(12), np.arange(12) * 8))
    opened = data.open(tmp_path)
    assert opened.y_test[:].tolist() == [8 * i for i in range(12)]
    assert opened.y_coarse_train[:].tolist() == list(range(12))


def test_a_folder_of_batches_is_one_set(tmp_path: Path) -> None:
    for number in (1, 2):
        put(tmp_path / f"data_batch_{number}.bin", cifar(np.full(12, number)))
    put(tmp_path / "test_batch.bin", cifar(np.full(12, 9)))
    opened = data.open(tmp_path)
    assert opened.x_train.shape == (24, 32, 32, 3)
    assert opened.y_train[[23, 0, 12]].tolist() == [2, 1, 2]
    assert np.array_equal(opened.x_train[[13, 1]], PIXELS[[1, 1]])


# ---------------------------------------------------------------- netCDF

# Written by scipy.io.netcdf_file: x (5, 3), y, packed, name and, in records, t (4, 3) and u.
CLASSIC = {
    "CDF-1": (
        "c-mc3J5Iwu5S?+HV3HJwigY;w2S9icD6~{*&0?>Gh2uo=8bP;5;TV)0g+owKq+rIoYnzPp<e4{b=O^FZtq=f0!j"
        "v##Ul$t%*2d~pRoeLs{k&H$$=W#qTfWex;{(E^mYba;W*oEbt<R(TcJG_2&~=|5-K(|lc}0>>*1g+2I(Tz);1BoN"
        "$@E2K|8#S&sZ&|1B$uh)?p<w+ZH=kSvSgd*wbI?Lc(b&*WL1>qT9%FK`r%<Q?9C%XSjqNoem8G{y>HO&s(TKObX+"
        "SU>Wp<wzw6K@PIJM*wE^JyV?kj5gYZT81|SLqRT8v=xFirE9te+v%b>AdK-+|eg?vhF&%oedsu0Eo<KJ$A6Nn6o$"
        "i=7h-^?gJx8WbwR5oe"
    ),
    "CDF-2": (
        "c-m!By-ve05I(1AC~XJCL^lQoMjikWBT!kHx(1UtBEn6p#zC;<QFs&{fk)sm7&>rQpOes@^u>4IefIq*clYxE07A"
        "qVF(BU-OAXG3`c0RXeS&@2Xik!LiV!=#u!ebhFRIjX&BTOa(!F<i!DoBFE(=?A`N4x;_?p*_7T@&w;DF)H_d?g{j"
        "MgfB)!9Go)a$BL8J*-RwW|%+5V5;FR#}#;^1RZvomt$TyIe9aj9DmC>$axY&JOCI(GE+s+o7M+o8L9L7nHXh4|`g"
        "AbHwx|Y3pwGzC}IV6@70S0GcP32=YG>Ux*(7q(Gh^a3+ariG+MaJoPpu8s`N#UAUd8=hW2=8qw=6gkdA%-?ob*7&"
        "St2Cvc4a(*)yF7ybdakv04"
    ),
    "one record variable": (
        "c-nJzabsj)U|<1aE+A$Cu}d;@QyCzDwIrh`70O{|Kmcwa2I*rgf$*82;*3aY7@>Mn7#NwDSy<WFIXJnv0l#Gh-~"
    ),
}


def classic(kind: str) -> bytes:
    return zlib.decompress(base64.b85decode(CLASSIC[kind]))


@pytest.mark.parametrize("kind", ["CDF-1", "CDF-2"])
def test_classic_netcdf(kind: str, tmp_path: Path) -> None:
    opened = data.open(put(tmp_path / "sample.nc", classic(kind)))
    assert np.array_equal(opened.x, np.arange(15, dtype=np.float32).reshape(5, 3) / 4)
    assert opened.y[[4, 1]].tolist() == [1, 0]
    assert np.array_equal(opened.t, np.arange(12).reshape(4, 3))
    assert opened.u[:].tolist() == [0, 1.5, 3, 4.5]
    assert np.array_equal(opened.packed, [10, 10.5, 11, np.nan, 12], equal_nan=True)
    assert opened.packed.dtype == np.float32
    assert "name" not in opened


def test_a_single_record_variable_is_not_filled_up(tmp_path: Path) -> None:
    opened = data.open(put(tmp_path / "sample.nc", classic("one record variable")))
    assert np.array_equal(opened.t, np.arange(12).reshape(4, 3))


@pytest.mark.parametrize("keep", [5, 40, 200, -1, -20, -60])
def test_netcdf_cut_short(keep: int, tmp_path: Path) -> None:
    path = put(tmp_path / "sample.nc", classic("CDF-1")[:keep])
    with pytest.raises(InputError, match=r"sample.nc must (have|be a whole)"):
        data.open(path)


def test_netcdf_4_is_read_as_hdf5_and_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "sample.nc"
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(6.0).reshape(3, 2)
        file["packed"] = np.array([0, 1, -9], np.int16)
        file["packed"].attrs.update(scale_factor=0.5, _FillValue=np.int16(-9))
    with data.open(path) as opened:
        assert opened.format == "netcdf"
        assert np.array_equal(opened.packed, [0, 0.5, np.nan], equal_nan=True)
        assert opened.x[2].tolist() == [4, 5]


# ---------------------------------------------------------------- not what the name says

HDF5 = b"\x89HDF\r\n\x1a\n" + bytes(600)
BAD: dict[str, tuple[str, bytes, str]] = {
    "text as HDF5": ("a.h5", b"1,2\n3,4\n", "must be HDF5, as its name says. Received: CSV text"),
    "HDF5 as text": ("a.csv", HDF5, "must be CSV text, as its name says. Received: HDF5"),
    "packed idx as text": ("a.csv.gz", idx(DIGITS), "must be CSV text.*Received: MNIST's idx"),
    "text as idx": ("train-images-idx3-ubyte", b"1,2\n", "must be MNIST's idx.*Received: CSV"),
    "text as TFRecord": ("a.tfrecord", b"1,2\n", "must be TFRecord.*Received: CSV text"),
    "text as netCDF": ("a.nc", b"1,2\n", "must be netCDF.*Received: CSV text"),
    "text as CIFAR": ("a.bin", b"1,2\n3,4\n", "must be CIFAR binary.*Received: CSV text"),
    "half a CIFAR record": ("a.bin", b"\1" * 4000, "4000 bytes are 1 records of CIFAR-10 and 927"),
    "CIFAR label 77": ("a.bin", b"\x4d" + bytes(3072), "label 77 of 10 classes in row 0"),
    "empty": ("a.csv", b"", "Received: an empty file"),
    "nothing known": ("a.dat", bytes(range(200)), "Received: a format that is not known"),
    "NumPy": ("a.npy", b"\x93NUMPY" + bytes(90), "give fit numpy.load"),
    "zip": ("a.npz", b"PK\x03\x04" + bytes(90), "a zip archive; unpack it"),
    "one image": ("a.jpg", b"\xff\xd8\xff" + bytes(90), "one JPEG image; give the folder"),
    "tar": ("a.tar.gz", bytes(257) + b"ustar" + bytes(300), "tar packed by gzip; unpack it"),
    "text as tar": ("a.tar", b"1,2\n", "must be tar.*Received: CSV text"),
    "no tar": ("a.tar", bytes(range(200)) * 9, "must be a whole tar archive.*copy it again"),
    "not packed": ("a.csv.gzip.csv", gzip.compress(b"1,2\n"), "must be plain, as its name says"),
    "gzip of nothing whole": ("b.gz", b"", "Received: an empty file"),
    "idx cut short": (
        "a-images-idx3-ubyte", idx(IMAGES)[:-65],
        r"must have 616 bytes for the values of shape \(20, 6, 5\).*551 bytes.*row 17",
    ),
    "packed idx cut short": ("a.idx.gz", idx(IMAGES)[:-65], "551 bytes, cut short at row 17"),
    "idx too long": ("a.idx", idx(IMAGES) + b"1", "must have 616 bytes.*Received: 617"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_file_that_is_something_else_is_refused(case: str, tmp_path: Path) -> None:
    name, content, message = BAD[case]
    path = put(tmp_path / name, content)
    with pytest.raises(InputError, match=message) as caught:
        data.open(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_user_s_word_replaces_the_name(tmp_path: Path) -> None:
    path = put(tmp_path / "events.dat.h5", b"1,2\n3,4\n")
    assert data.open(path, format="csv").y[:].tolist() == [1, 3]
    with pytest.raises(InputError, match=r"as format says"):
        data.open(path, format="idx")
    with pytest.raises(InputError, match=r"format must be one of hdf5, csv"):
        data.open(path, format="parquet")


def test_other_labels_than_images(tmp_path: Path) -> None:
    path = put(tmp_path / "train-images-idx3-ubyte", idx(IMAGES))
    put(tmp_path / "train-labels-idx1-ubyte", idx(DIGITS[:-1]))
    with pytest.raises(InputError, match=r"a label for every image.*'x': 20, 'y': 19"):
        data.open(path)


@pytest.mark.parametrize("name", ["none.csv", "none"])
def test_a_missing_file_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"existing file or folder.*{name}"):
        data.open(tmp_path / name)


def test_every_option_is_refused_where_it_has_no_meaning(tmp_path: Path) -> None:
    path = put(tmp_path / "a.idx", idx(IMAGES))
    options: list[dict[str, Any]] = [{"label": 0}, {"header": True}, {"size": (3, 3)}]
    for option in options:
        with pytest.raises(InputError, match=r"is not for MNIST's idx.*leave it out"):
            data.open(path, **option)
