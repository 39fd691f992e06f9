"""Folders of images, one folder per class, as in ImageNet."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from matex.data.encoded_images import Contents, EncodedImages, check_size
from matex.data.rows import Memory, Rows
from matex.data.source import Data
from matex.errors import DataError

__all__ = ["open_images"]

_SUFFIXES = (".jpeg", ".jpg", ".png", ".gif", ".bmp")
_OTHERS = (".webp", ".tif", ".tiff", ".jpe", ".jp2", ".ppm", ".pgm", ".heic", ".avif", ".tga")
_PARTS = {"train": "train", "val": "test", "validation": "test", "test": "test"}


class _ImageFiles(Contents):
    """Files with one image each.

    Args:
        files: paths below *root*, in the order of the rows.
    """

    def __init__(self, root: Path, files: list[str]) -> None:
        self._root = root
        self._files = files

    def __len__(self) -> int:
        return len(self._files)

    def read(self, row: int) -> bytes:
        try:
            with (self._root / self._files[row]).open("rb", buffering=0) as file:
                return file.read()
        except OSError as error:
            raise DataError(f"{self.where(row)} must be readable. Received: {error}") from None

    def where(self, row: int) -> str:
        return f"{self._root}/{self._files[row]} (row {row})"


def open_images(path: Path, *, size: tuple[int, int] | None = None) -> Data:
    """``x`` uint8 and ``y`` int64 of a folder of classes, or both for train and val or test.

    Only names are read here, and the first image. Classes are numbered in the order of
    their names, alike in both parts.

    Args:
        size: (height, width) to cut and scale to.

    Raises:
        DataError: no images, or parts with different classes.
    """
    check_size(size)
    folders = _folders(path)
    if "train" in folders:
        parts = {_PARTS[name]: path / name for name in folders if name in _PARTS}
        classes = _folders(parts["train"])
        members: dict[str, Rows] = {}
        for part, folder in parts.items():
            x, y = _read(folder, classes, size)
            members |= {f"x_{part}": x, f"y_{part}": y}
    else:
        classes = folders
        x, y = _read(path, classes, size)
        members = {"x": x, "y": y}
    return Data(
        path,
        "images",
        members,
        notes={"classes": str(len(classes))},
        facts={"classes": classes},
    )


def _folders(path: Path) -> list[str]:
    with os.scandir(path) as entries:
        return sorted(
            entry.name for entry in entries if entry.is_dir() and not entry.name.startswith(".")
        )


def _read(folder: Path, classes: list[str], size: tuple[int, int] | None) -> tuple[Rows, Rows]:
    if unknown := sorted(set(_folders(folder)) - set(classes)):
        raise DataError(
            f"{folder} must have classes that are trained. Received: {', '.join(unknown[:5])}"
        )
    files: list[str] = []
    labels: list[np.ndarray] = []
    for number, name in enumerate(classes):
        if not (folder / name).is_dir():
            continue
        found = _images_in(folder / name)
        files += [f"{name}/{file}" for file in found]
        labels.append(np.full(len(found), number, np.int64))
    if not files:
        received = f"{len(classes)} folders without one" if classes else "no folder in it"
        raise DataError(
            f"{folder} must hold a folder of {', '.join(_SUFFIXES)} files for each class. "
            f"Received: {received}"
        )
    return EncodedImages(_ImageFiles(folder, files), size), Memory(np.concatenate(labels))


def _images_in(folder: Path) -> list[str]:
    """Names of the images of a class, in order.

    Raises:
        DataError: there are images that would be ignored: of another kind, or in a folder.
    """
    with os.scandir(folder) as entries:
        names = sorted((entry.name, entry.is_dir()) for entry in entries)
    for name, is_folder in names:
        if is_folder and not name.startswith(".") and _holds_images(folder / name):
            raise DataError(
                f"{folder} must hold the images of a class themselves. Received: the folder "
                f"{name} with images in it; move them up, or make it a class"
            )
        if name.lower().endswith(_OTHERS):
            raise DataError(
                f"{folder} must hold {', '.join(_SUFFIXES)} images. Received: {name}; convert it, "
                "or move it away"
            )
    return [name for name, is_folder in names if not is_folder and _is_image(name)]


def _is_image(name: str) -> bool:
    return name.lower().endswith(_SUFFIXES)


def _holds_images(folder: Path) -> bool:
    return any(_is_image(name) for _, _, names in os.walk(folder) for name in names)
