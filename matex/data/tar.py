"""Tar shards in WebDataset's layout, read by rows like a folder of images by class."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from matex.data.encoded_images import Contents, EncodedImages, check_size
from matex.data.formats import part_of
from matex.data.rows import Memory, Rows
from matex.data.source import Data
from matex.data.tar_index import Label, Place, samples_of
from matex.errors import DataError

__all__ = ["open_tars"]


class _TarFiles(Contents):
    """Files in several tars.

    Args:
        shards: number of the tar of each row.
        places: offset and size of each, (rows, 2) int64.
    """

    def __init__(self, paths: Sequence[Path], shards: np.ndarray, places: np.ndarray) -> None:
        self._paths = paths
        self._shards = shards
        self._places = places

    def __len__(self) -> int:
        return len(self._places)

    def read(self, row: int) -> bytes:
        offset, size = self._places[row].tolist()
        try:
            with self._paths[self._shards[row]].open("rb", buffering=0) as file:
                content = os.pread(file.fileno(), size, offset)
        except OSError as error:
            raise DataError(f"{self.where(row)} must be readable. Received: {error}") from None
        if len(content) < size:
            raise DataError(
                f"{self.where(row)} must have {size} bytes. Received: {len(content)}; the file "
                "was changed after it was opened"
            )
        return content

    def where(self, row: int) -> str:
        place = self._places[row, 0]
        return f"{self._paths[self._shards[row]]} (row {row}, the file at byte {place})"


def open_tars(
    paths: Sequence[Path],
    *,
    origin: Path,
    label: str | None = None,
    size: tuple[int, int] | None = None,
) -> Data:
    """``x`` uint8 and ``y`` int64 of the samples of all shards, concatenated.

    Where the names of some say train and those of others val or test, of each part. A class is the
    number that stands in the tars, or that of its name in the order of all names. A tar without
    files adds nothing.

    Args:
        paths: files of the shards, in the order of their rows.
        origin: path that the user gave, below which names tell the parts.
        label: name of the label in .json.
        size: (height, width) to cut and scale to.

    Raises:
        DataError: a tar is damaged, or is none of samples; or no tar has files.
    """
    check_size(size)
    if not paths:
        raise DataError(
            f"{origin} must hold .tar files, and no folders beside them. Received: none"
        )
    sets: dict[str, list[Path]] = {}
    for path in paths:
        name = path.relative_to(origin) if path.is_relative_to(origin) else path.name
        sets.setdefault(part_of(str(name)) if len(paths) > 1 else "", []).append(path)
    indexed = {part: _indexed(shards, label) for part, shards in sets.items()}
    parts = {part: (images, labels) for part, (images, labels) in indexed.items() if labels}
    if not parts:
        received = "a tar" if len(paths) == 1 else f"{len(paths)} tars"
        raise DataError(
            f"{origin} must hold NAME.jpg and NAME.cls. Received: {received} without files"
        )
    classes = _classes({part: labels for part, (_, labels) in parts.items()}, origin)
    numbers = {name: number for number, name in enumerate(classes)}
    members: dict[str, Rows] = {}
    for part, (images, labels) in parts.items():
        y = [label if isinstance(label, int) else numbers[label] for label in labels]
        members[f"x{part}"] = EncodedImages(images, size)
        members[f"y{part}"] = Memory(np.array(y, np.int64))
    count = len(classes) or 1 + max(int(members[f"y{part}"][:].max()) for part in parts)
    notes = {"files": str(len(paths)), "classes": str(count)}
    return Data(origin, "tar", members, notes=notes, facts={"classes": classes} if classes else {})


def _indexed(paths: list[Path], label: str | None) -> tuple[_TarFiles, list[Label]]:
    shards: list[np.ndarray] = []
    places: list[Place] = []
    labels: list[Label] = []
    for number, path in enumerate(paths):
        samples = samples_of(path, field=label)
        shards.append(np.full(len(samples), number, np.int32))
        places += [sample.image for sample in samples]
        labels += [sample.label for sample in samples]
    return _TarFiles(paths, np.concatenate(shards), np.array(places, np.int64)), labels


def _classes(labels: dict[str, list[Label]], origin: Path) -> list[str]:
    """Names of the classes, in order; empty if classes are numbers."""
    named = {part: {one for one in some if isinstance(one, str)} for part, some in labels.items()}
    numbers = {one for some in labels.values() for one in some if isinstance(one, int)}
    every = set().union(*named.values())
    if every and numbers:
        raise DataError(
            f"{origin} must have classes by number, or all by name. "
            f"Received: {min(numbers)} and {min(every)}"
        )
    trained = named.get("_train", every)
    if unknown := sorted(every - trained):
        raise DataError(
            f"{origin} must have classes that are trained. Received: {', '.join(unknown[:5])}"
        )
    return sorted(trained)
