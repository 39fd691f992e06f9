"""Encoded images by class: of folders, of an HDF5 file, or drawn for want of either."""

import argparse
import itertools
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
from course import digits

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


class Pixels(NamedTuple):
    """Images (n, side, side, channels) uint8 and their classes (n,)."""

    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


def load_pixels(args: argparse.Namespace) -> Pixels:
    """Digits, or pictures in memory: the first --images of --data, or drawn shapes."""
    rows = slice(args.images)
    if args.data is None:
        print(f"No --data: drawing {args.images or 2000:,} shapes ...", flush=True)
        found = draw(args.images or 2000, args.side, seed=args.seed)
    elif args.data.is_dir() or _has_jpegs(args.data):
        found = read(args.data)
    else:
        own = digits.read(args.data)
        train, test = own.x_train[rows, ..., None], own.x_test[..., None]
        return Pixels(train, own.y_train[rows], test, own.y_test)
    parts = [Part(part.images[rows], part.labels[rows]) for part in (found.train, found.test)]
    train, test = (_decoded(part.images, args.side, found.in_files) for part in parts)
    return Pixels(train, parts[0].labels, test, parts[1].labels)


def _has_jpegs(path: Path) -> bool:
    if not h5py.is_hdf5(path):
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


def _decoded(images: list[str] | list[bytes], side: int, in_files: bool) -> np.ndarray:
    import tensorflow as tf

    def pixels(image: str | bytes) -> np.ndarray:
        content = tf.io.read_file(image) if in_files else image
        tensor = tf.io.decode_image(content, channels=3, expand_animations=False)
        if tensor.shape[:2] != (side, side):
            tensor = tf.image.resize(tensor, (side, side), antialias=True)
        return tf.cast(tensor, tf.uint8).numpy()

    return np.stack([pixels(image) for image in images])
