"""Format of a file, by its content; its name must agree."""

from __future__ import annotations

import gzip
import re
import struct
import zlib
from pathlib import Path

from matex.data.crc32c import masked_crc32c
from matex.errors import DataError, InputError

__all__ = ["FORMATS", "SHARDS", "format_of", "head", "is_gzip", "part_of", "tars_in"]

# Names that a user may give, and names for messages.
FORMATS = {
    "hdf5": "HDF5",
    "csv": "CSV text",
    "idx": "MNIST's idx",
    "cifar": "CIFAR binary",
    "images": "a folder of images by class",
    "tfrecord": "TFRecord",
    "netcdf": "netCDF",
    "tar": "tar",
}
_SUFFIXES = {
    ".h5": "hdf5", ".hdf5": "hdf5", ".he5": "hdf5", ".keras": "hdf5",
    ".csv": "csv", ".tsv": "csv", ".txt": "csv",
    ".idx": "idx", ".idx1-ubyte": "idx", ".idx3-ubyte": "idx",
    ".bin": "cifar",
    ".tfrecord": "tfrecord", ".tfrecords": "tfrecord",
    ".tar": "tar", ".tgz": "tar",
    ".nc": "netcdf", ".nc4": "netcdf", ".cdf": "netcdf", ".netcdf": "netcdf",
}  # fmt: skip
SHARDS = ("*.tfrecord", "*.tfrecords", "*.tfrecord-*", "*-of-[0-9]*")
_FOLDERS = {
    "idx": ("*-images[.-]idx3-ubyte*",),
    "tfrecord": SHARDS,
    "cifar": ("data_batch_*.bin", "test_batch.bin", "train.bin", "test.bin"),
}
_PARTS = {
    "train": "_train", "training": "_train",
    "val": "_test", "valid": "_test", "validation": "_test", "test": "_test",
}  # fmt: skip
_OTHERS = (
    (b"\x93NUMPY", "a NumPy array; give fit numpy.load(path, mmap_mode='r')"),
    (b"PK\x03\x04", "a zip archive; unpack it"),
    (b"\xff\xd8\xff", "one JPEG image; give the folder that holds a folder for each class"),
    (b"\x89PNG\r\n", "one PNG image; give the folder that holds a folder for each class"),
    (b"BZh", "bzip2; unpack it"),
    (b"\xfd7zXZ", "xz; unpack it"),
    (b"\x28\xb5\x2f\xfd", "zstd; unpack it"),
)
_READ_PACKED = ("csv", "idx")
_HDF5 = b"\x89HDF\r\n\x1a\n"
_IDX_TYPES = (8, 9, 11, 12, 13, 14)


def format_of(path: Path, given: str | None = None) -> str:
    """Key in FORMATS of the content of *path*.

    Args:
        given: format given by the user, in place of the file's name.

    Raises:
        DataError: the file is missing, unreadable, of unknown format, or not as named.
    """
    if given is not None and given not in FORMATS:
        raise InputError(f"format must be one of {', '.join(FORMATS)}. Received: {given}")
    if path.is_dir():
        return given or _folder(path)
    try:
        found = _found(path)
    except FileNotFoundError:
        raise DataError(f"an existing file or folder is wanted. Received: {path}") from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"a readable data file is wanted. Received: {path}: {error}") from None
    if found is not None and is_gzip(path) != path.name.lower().endswith((".gz", ".tgz")):
        packed = is_gzip(path)
        raise DataError(
            f"{path} must be {'plain' if packed else 'gzip'}, as its name says. Received: "
            f"{FORMATS[found]} {'packed by gzip' if packed else 'that is not packed'}; rename it"
        )
    wanted = given or _named(path)
    if is_gzip(path) and (found or wanted) not in _READ_PACKED:
        kind = FORMATS.get(found or wanted or "")
        if kind is not None:
            raise DataError(
                f"{path} must not be packed, as it is read by places. Received: {kind} packed by "
                f"gzip; unpack it: gunzip -k {path}"
            )
    if wanted in ("cifar", "tar") and found is None and path.stat().st_size:
        return wanted  # it has no mark of its own, or is damaged there: the reader looks
    if wanted == "netcdf" and found == "hdf5":
        return wanted
    if found is None:
        known = FORMATS[wanted] if wanted else " or ".join(FORMATS.values())
        raise DataError(f"{path} must be {known}. Received: {_described(path)}")
    if wanted is not None and wanted != found:
        raise DataError(
            f"{path} must be {FORMATS[wanted]}, as {'format' if given else 'its name'} says. "
            f"Received: {FORMATS[found]}; rename it, or give the format {found!r}"
        )
    return found


def _folder(path: Path) -> str:
    """The format of a folder: files named as MNIST's, CIFAR's or TFRecord's, tars, or images."""
    for kind, patterns in _FOLDERS.items():
        if any(file for pattern in patterns for file in path.glob(pattern)):
            return kind
    return "tar" if tars_in(path) else "images"


def tars_in(folder: Path) -> list[Path]:
    """Tars in *folder*, or in folders train, val or test of it, in the order of their names.

    None if they are beside folders: these are their unpacked content.
    """
    parts = [folder / name for name in _PARTS if (folder / name).is_dir()]
    found = []
    for place in parts or [folder]:
        if not any(other.is_dir() and not other.name.startswith(".") for other in place.iterdir()):
            found += sorted(place.glob("*.tar"))
    return found


def part_of(name: str) -> str:
    """The part that the words of a file's name say: ``_train``, ``_test``, or nothing."""
    words = re.split("[^a-z]+", name.lower())
    return next((_PARTS[word] for word in words if word in _PARTS), "")


def _named(path: Path) -> str | None:
    name = path.name.lower().removesuffix(".gz")
    if name.endswith("-ubyte"):
        return "idx"
    return _SUFFIXES.get(Path(name).suffix)


def is_gzip(path: Path) -> bool:
    """Whether the content is compressed by gzip, whatever the name."""
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


def head(path: Path, size: int = 4096) -> bytes:
    """The first *size* bytes, unpacked when the file is gzip.

    Raises:
        OSError, EOFError, zlib.error: it cannot be read.
    """
    with path.open("rb") as file:
        first = file.read(size)
    if first.startswith(b"\x1f\x8b"):
        with gzip.open(path, "rb") as packed:
            return packed.read(size)
    return first


def _found(path: Path) -> str | None:
    first = head(path)
    if _is_hdf5(path, first):
        return "hdf5"
    if first[:3] == b"CDF" and first[3:4] in (b"\x01", b"\x02", b"\x05"):
        return "netcdf"
    if len(first) >= 12 and _is_record_head(first[:12]):
        return "tfrecord"
    if len(first) >= 4 and first[:2] == b"\0\0" and first[2] in _IDX_TYPES and 0 < first[3] <= 8:
        return "idx"
    if first[257:262] == b"ustar":
        return "tar"
    if any(first.startswith(mark) for mark, _ in _OTHERS):
        return None
    if first and _is_text(first):
        return "csv"
    return None


def _is_hdf5(path: Path, first: bytes) -> bool:
    if first.startswith(_HDF5):
        return True
    with path.open("rb") as file:  # behind a user block of 512, 1024, 2048, ... bytes
        place, size = 512, path.stat().st_size
        while place < size:
            file.seek(place)
            if file.read(len(_HDF5)) == _HDF5:
                return True
            place *= 2
    return False


def _is_record_head(first: bytes) -> bool:
    (crc,) = struct.unpack("<I", first[8:12])
    return crc == masked_crc32c(first[:8])


def _is_text(first: bytes) -> bool:
    return all(byte >= 32 or byte in b"\t\r\n" for byte in first)


def _described(path: Path) -> str:
    first = head(path)
    if not first:
        return "an empty file"
    for mark, what in _OTHERS:
        if first.startswith(mark):
            return what
    return "a format that is not known here"
