"""Index of a tar of images in WebDataset's layout: headers are read once, images not."""

from __future__ import annotations

import json
import os
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from matex.errors import DataError

__all__ = ["Label", "Place", "TarSample", "samples_of"]

Label = int | str
"""The number of a class, or its name."""

IMAGES = ("jpg", "jpeg", "png", "gif", "bmp")
LABELS = ("cls", "json", "txt")  # the first of them that a sample has counts
FIELDS = ("label", "cls", "class", "class_id")  # of an object in .json
# Text of a number, which is no name: names are numbered in the order of their spelling.
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_CHUNK = 1 << 16
_NAME = re.compile(r"(?P<key>(?:.*/)?[^/.]+)\.(?P<kind>[^/]+)")


class Place(NamedTuple):
    """The bytes of a file in a tar."""

    offset: int
    size: int


class TarSample(NamedTuple):
    """Location of an image, and its label."""

    image: Place
    label: Label


def samples_of(path: Path, *, field: str | None = None) -> list[TarSample]:
    """The samples of the tar *path*, in the order of their images.

    A sample is ``NAME.jpg`` (.jpeg, .png, .gif, .bmp) and ``NAME.cls``, or ``.json`` or ``.txt``
    with the class. Headers and labels are read, and no image. A tar without files has none.

    Args:
        field: name of the label in .json; by default label, cls, class or class_id.

    Raises:
        DataError: the tar is damaged or cut short, or is none of samples.
    """
    try:
        with path.open("rb", buffering=0) as file:  # a header is 512 bytes, and no more is read
            found = _members(path, file)
            return list(_samples(path, file, found, field))
    except OSError as error:
        raise DataError(f"{path} must be readable. Received: {error}") from None


def _members(path: Path, file: Any) -> dict[str, dict[str, Place]]:
    """The places of files by the sample's name, and by the end of the file's own name."""
    found: dict[str, dict[str, Place]] = {}
    try:
        with tarfile.open(fileobj=file, mode="r:") as tar:
            for member in tar:
                _note(path, member, found)
            _check_end(path, file, tar.offset)
    except tarfile.TarError as error:
        raise DataError(
            f"{path} must be a whole tar archive. Received: {error}; the file is damaged or cut "
            "short, copy it again"
        ) from None
    return found


def _note(path: Path, member: tarfile.TarInfo, found: dict[str, dict[str, Place]]) -> None:
    name = member.name.rpartition("/")[2]
    if member.isdir() or name.startswith((".", "__")):
        return
    where = f"{path} (file {member.name})"
    if not member.isreg() or member.issparse():
        raise DataError(
            f"{where} must be a plain file. Received: a link, a device or a sparse file; pack it "
            "anew: tar --dereference --hard-dereference"
        )
    parts = _NAME.fullmatch(member.name)
    if parts is None:
        raise DataError(
            f"{where} must be named as WebDataset names it, NAME.jpg and NAME.cls. "
            f"Received: {name}; take it out"
        )
    sample = found.setdefault(parts["key"], {})
    kind = parts["kind"].lower()
    if kind in sample:
        raise DataError(
            f"{where} must be in it once. Received: two of that name; take one of them out"
        )
    sample[kind] = Place(member.offset_data, member.size)


def _check_end(path: Path, file: BinaryIO, end: int) -> None:
    """Check that the archive ends at *end*: tarfile stops at anything that it cannot read."""
    file.seek(end)
    place, rest = end, file.read(_CHUNK)
    if not rest:
        raise DataError(
            f"{path} must end with an empty block. Received: a file that ends after {end} bytes, "
            "cut short; copy it again"
        )
    while rest:
        if place == end and rest[: tarfile.BLOCKSIZE].strip(b"\0"):
            raise DataError(
                f"{path} must have the header of a file at byte {end}. Received: other bytes; the "
                "file is damaged, copy it again"
            )
        if rest.strip(b"\0"):
            raise DataError(
                f"{path} must end behind its last file, at byte {end}. Received: more behind it, "
                "as of archives that were joined; give them one by one"
            )
        place += len(rest)
        rest = file.read(_CHUNK)


def _samples(
    path: Path, file: BinaryIO, found: dict[str, dict[str, Place]], field: str | None
) -> Iterator[TarSample]:
    for key, kinds in found.items():
        images = [kinds[kind] for kind in IMAGES if kind in kinds]
        label = next((kind for kind in LABELS if kind in kinds), None)
        where = f"{path} (sample {key})"
        if len(images) != 1:
            raise DataError(
                f"{where} must have one image, of {', '.join(IMAGES)}. "
                f"Received: {len(images)}, with {', '.join(kinds)}"
            )
        if label is None:
            raise DataError(
                f"{where} must have its class in {key}.cls, .json or .txt. "
                f"Received: {', '.join(kinds)} alone; for a tar of each class, unpack them into "
                "a folder of each class"
            )
        size, offset = kinds[label].size, kinds[label].offset
        content = os.pread(file.fileno(), size, offset)
        yield TarSample(images[0], _label_of(label, content, field, f"{where}, .{label},"))


def _label_of(kind: str, content: bytes, field: str | None, where: str) -> Label:
    try:
        value = json.loads(content) if kind == "json" else content.decode().strip()
    except ValueError as error:
        raise DataError(f"{where} must be text. Received: {error}") from None
    if isinstance(value, dict):
        names = FIELDS if field is None else (field,)
        value = next((value[name] for name in names if name in value), None)
        if value is None:
            raise DataError(
                f"{where} must have a field {' or '.join(names)}. Received: "
                f"{content[:60].decode(errors='replace')}; name the field as the label"
            )
    if isinstance(value, str) and re.fullmatch(r"\d+", value):
        value = int(value)
    is_number = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    is_name = isinstance(value, str) and bool(value) and "\n" not in value
    if not is_number and (not is_name or _NUMBER.fullmatch(str(value))):
        raise DataError(
            f"{where} must be the number of a class, from 0, or its name. "
            f"Received: {str(value)[:60]!r}"
        )
    return value
