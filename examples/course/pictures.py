"""Encoded images by class: of folders, of an HDF5 file, or drawn for want of either."""

import argparse
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
from course import digits

import matex.data

SUFFIXES = (".jpeg", ".jpg", ".png")
SHAPES = ("circle", "cross", "ring", "square")


class Part(NamedTuple):
    """Paths of images, or the images as bytes; the class of each, (n,) int64."""

    images: list[str] | list[bytes]
    labels: np.ndarray


class Pictures(NamedTuple):
    """The images to train and to test on. `in_files` says whether they are paths."""

    train: Part
    test: Part
    classes: list[str]
    in_files: bool


def load(args: argparse.Namespace) -> Pictures:
    """The images of --data, or --images drawn ones of --size pixels."""
    if args.data is not None:
        found = read(args.data)
    else:
        print(f"No --data: drawing {args.images:,} shapes ...", flush=True)
        found = draw(args.images, args.size, seed=args.seed)
    counts = (
        f"{len(found.train.labels):,} images to train on, {len(found.test.labels):,} to test on"
    )
    print(f"{counts}, {len(found.classes)} classes", flush=True)
    return found


def read(path: Path) -> Pictures:
    """Folders or a file; ValueError if it is neither."""
    if path.is_dir():
        return read_folders(path)
    if not h5py.is_hdf5(path):
        raise ValueError(f"{path} must be a folder of images by class, or an HDF5 file of JPEGs.")
    return read_hdf5(path)


def read_folders(root: Path) -> Pictures:
    """One folder a class, in `train` and `val` as in ImageNet; else every tenth is for the test."""
    split = (root / "train").is_dir() and (root / "val").is_dir()
    top = root / "train" if split else root
    classes = sorted(folder.name for folder in top.iterdir() if folder.is_dir())
    train = _files(top, classes)
    if not len(train.labels):
        raise ValueError(f"{top} must hold a folder of {', '.join(SUFFIXES)} files for each class.")
    if split:
        return Pictures(train, _files(root / "val", classes), classes, in_files=True)
    return _held_out(train, classes, in_files=True)


def read_hdf5(path: Path) -> Pictures:
    """jpeg_*, all JPEG files in a row, offsets_* where each begins and ends, and labels y_*."""
    with h5py.File(path, locking=False) as file:
        names = [
            f"{name}_{part}" for part in ("train", "test") for name in ("jpeg", "offsets", "y")
        ]
        missing = [name for name in names if name not in file]
        if missing:
            raise ValueError(f"{path} must have {', '.join(names)}. Missing: {', '.join(missing)}.")
        arrays = {name: file[name][:] for name in names}
    parts = []
    for part in ("train", "test"):
        content, ends = arrays[f"jpeg_{part}"].tobytes(), arrays[f"offsets_{part}"].tolist()
        images = [content[lo:hi] for lo, hi in itertools.pairwise(ends)]
        parts.append(Part(images, arrays[f"y_{part}"].astype(np.int64)))
    classes = [str(number) for number in range(1 + max(int(p.labels.max()) for p in parts))]
    return Pictures(*parts, classes, in_files=False)


def draw(images: int, side: int, *, seed: int) -> Pictures:
    """Four shapes in random colours and places on a noisy ground, as PNG files in memory."""
    import tensorflow as tf

    rng = np.random.default_rng(seed)
    labels = rng.integers(0, len(SHAPES), images)
    encoded = []
    for label in labels.tolist():
        y, x = np.mgrid[:side, :side] / side - rng.uniform(0.35, 0.65, (2, 1, 1))
        inside = _inside(SHAPES[label], y, x, rng.uniform(0.18, 0.32))
        ground, ink = rng.uniform(0, 255, (2, 3))
        pixels = np.where(inside[..., None], ink, ground) + rng.normal(0, 20, (side, side, 3))
        encoded.append(tf.io.encode_png(np.clip(pixels, 0, 255).astype(np.uint8)).numpy())
    return _held_out(Part(encoded, labels), list(SHAPES), in_files=False)


def _inside(shape: str, y: np.ndarray, x: np.ndarray, radius: float) -> Any:
    distance, farther = np.hypot(y, x), np.maximum(abs(y), abs(x))
    return {
        "circle": distance < radius,
        "cross": (farther < radius) & (np.minimum(abs(y), abs(x)) < radius / 3),
        "ring": (distance < radius) & (distance > 0.6 * radius),
        "square": farther < 0.85 * radius,
    }[shape]


def _files(top: Path, classes: list[str]) -> Part:
    images: list[str] = []
    labels: list[int] = []
    for number, name in enumerate(classes):
        folder = top / name
        files = sorted(folder.iterdir()) if folder.is_dir() else []
        found = [str(file) for file in files if file.suffix.lower() in SUFFIXES]
        images += found
        labels += [number] * len(found)
    return Part(images, np.array(labels, np.int64))


def _held_out(part: Part, classes: list[str], *, in_files: bool) -> Pictures:
    rows = np.arange(len(part.labels))
    train, test = (
        Part([part.images[row] for row in chosen], part.labels[chosen])
        for chosen in (rows[rows % 10 != 9], rows[rows % 10 == 9])
    )
    return Pictures(train, test, classes, in_files)


class ImageRows(NamedTuple):
    """Images (n, side, side, channels) uint8, read when they are wanted, and their classes (n,).

    `are_photographs` says whether a part of one, or its mirror image, is one as well.
    """

    x_train: Any
    y_train: Any
    x_test: Any
    y_test: Any
    are_photographs: bool


def open_rows(args: argparse.Namespace) -> ImageRows:
    """Digits, or pictures: --images of those of --data, or of drawn shapes."""
    size = (args.side, args.side)
    if args.data is None:
        print(f"No --data: drawing {args.images or 2000:,} shapes ...", flush=True)
        found = draw(args.images or 2000, args.side, seed=args.seed)
        parts = [matex.data.EncodedImages(part.images, size) for part in (found.train, found.test)]
        return ImageRows(parts[0], found.train.labels, parts[1], found.test.labels, True)
    if _has_jpegs(args.data):
        parts = [StoredImages(args.data, part) for part in ("train", "test")]
        x, x_test = (matex.data.EncodedImages(part, size) for part in parts)
        return ImageRows(*_some(x, parts[0].labels, args.images), x_test, parts[1].labels, True)
    if args.data.is_dir() or args.data.suffix == ".tar":
        opened = matex.data.open(args.data)
        if opened.format in ("images", "tar"):
            return _some_of(matex.data.open(args.data, size=size), args.images)
    own = digits.read(args.data)
    x, x_test = own.x_train[: args.images, ..., None], own.x_test[..., None]
    return ImageRows(x, own.y_train[: args.images], x_test, own.y_test, False)


def _some_of(opened: matex.data.Data, most: int | None) -> ImageRows:
    """The parts that it has, or every tenth row for the test."""
    if "x_train" in opened:
        x, y, x_test, y_test = (opened[name] for name in digits.ARRAYS)
    else:
        rows = np.arange(len(opened.y))
        train, test = rows[rows % 10 != 9], rows[rows % 10 == 9]
        x, y, x_test, y_test = (
            part.choose(chosen) for chosen in (train, test) for part in (opened.x, opened.y)
        )
    return ImageRows(*_some(x, y[:], most), x_test, y_test[:], True)


def _some(x: matex.data.Rows, y: np.ndarray, most: int | None) -> tuple[Any, np.ndarray]:
    """Rows of all classes, at most *most*."""
    chosen = np.linspace(0, len(y), min(most or len(y), len(y)), endpoint=False).astype(np.int64)
    return x.choose(chosen), y[chosen]


class StoredImages(Sequence):
    """The JPEG files of one part of an HDF5 file, as read_hdf5 takes them; each is read anew."""

    def __init__(self, path: Path, part: str) -> None:
        self._file = h5py.File(path, locking=False)
        self._content = self._file[f"jpeg_{part}"]
        self._ends = self._file[f"offsets_{part}"][:]
        self.labels = self._file[f"y_{part}"][:].astype(np.int64)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, row: int) -> bytes:
        lo, hi = self._ends[row : row + 2].tolist()
        return self._content[lo:hi].tobytes()


def _has_jpegs(path: Path) -> bool:
    if path.is_dir() or not h5py.is_hdf5(path):
        return False
    with h5py.File(path, locking=False) as file:
        return "jpeg_train" in file


def decode(image: Any, in_files: bool, side: int) -> Any:
    """A tensor (side, side, 3) of an image, in 0..255: float32."""
    import tensorflow as tf  # slow: not before bad input has had its one line

    content = tf.io.read_file(image) if in_files else image
    pixels = tf.io.decode_image(content, channels=3, expand_animations=False)
    pixels.set_shape((None, None, 3))
    return tf.image.resize(pixels, (side, side))
