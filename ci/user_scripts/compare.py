"""Did two runs of a script come to the same? What they printed and the files they wrote, compared.

Numbers with a decimal point may differ by rounding: by a thousandth, or by one in the last printed
digit. Everything else is to be equal. Local; nothing is run.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

__all__ = ["compare_files", "compare_text", "lines_of", "tree_of"]

RELATIVE = 1e-3
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d*)?(?:e[-+]?\d+)?(?![\w])", re.ASCII)
_TIME = re.compile(r"\b\d+(?:\.\d+)?\s?[mu]?s(?:/(?:step|epoch|sample))?(?!\w)")
_ADDRESS = re.compile(r"\b(?:\d{12,}|0x[0-9a-f]{8,})\b")
_COLOUR = re.compile("\x1b\\[[0-9;]*[A-Za-z]")
_REDRAWN = re.compile("[\r\x08]+")
_TEXT = {".csv", ".json", ".log", ".pbtxt", ".tsv", ".txt", ".yaml"}
# Time, host, process id and a count are in the names of TensorBoard's files.
_EVENTS = re.compile(r"(events\.out\.tfevents)\.[^/]*")


def lines_of(text: str) -> list[str]:
    """Lines that a reader of the terminal sees in the end.

    Times, addresses, colours and matex's own lines are left out.
    """
    found = []
    for line in text.replace("\r\n", "\n").split("\n"):
        shown = _COLOUR.sub("", _REDRAWN.split(line.rstrip("\r\x08"))[-1])
        shown = _ADDRESS.sub("<address>", _TIME.sub("<time>", shown))
        shown = " ".join(shown.split())
        if shown and not shown.startswith("matex: "):
            found.append(shown)
    return found


def compare_text(wanted: str, found: str, *, of: str = "") -> list[str]:
    """Each line that differs, as one line of text; empty where none does."""
    differences = []
    for number, (a, b) in enumerate(zip_longest(lines_of(wanted), lines_of(found)), 1):
        if a is None or b is None or not _alike(a, b):
            where = f"{of}:{number}" if of else f"line {number}"
            differences.append(f"{where}: wanted {_shown(a)}, found {_shown(b)}")
    return differences


def tree_of(folder: Path) -> dict[str, list[Path]]:
    """Name -> the files of that name; names without what differs by nature."""
    tree: dict[str, list[Path]] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder)) + ("/" if path.is_dir() else "")
        tree.setdefault(_EVENTS.sub(r"\1", name), []).append(path)
    return tree


def compare_files(wanted: Path, found: Path) -> list[str]:
    """Each file that is missing, is too many, differs or cannot be read, as one line of text."""
    a, b = tree_of(wanted), tree_of(found)
    differences = [f"{name}: not written" for name in sorted(a.keys() - b.keys())]
    differences += [f"{name}: too many" for name in sorted(b.keys() - a.keys())]
    for name in sorted(a.keys() & b.keys()):
        if not name.endswith("/"):
            differences += _compare_file(name, a[name][-1], b[name][-1])
    return differences


def _compare_file(name: str, wanted: Path, found: Path) -> Iterator[str]:
    if wanted.suffix in _TEXT:
        yield from compare_text(wanted.read_text(), found.read_text(), of=name)
        return
    try:
        a, b = _contents(wanted), _contents(found)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        yield f"{name}: cannot be read: {type(error).__name__}: {error}"
        return
    if a != b:
        yield f"{name}: wanted {_shown(a)}, found {_shown(b)}"


def _contents(path: Path) -> str:
    """The contents of a binary file without numbers: names and shapes, or that it is not empty."""
    if path.suffix == ".keras":
        with zipfile.ZipFile(path) as archive:
            if broken := archive.testzip():
                raise ValueError(f"{broken} is damaged")
            kind = json.loads(archive.read("config.json"))["class_name"]
            with archive.open("model.weights.h5") as file:
                return f"{kind} {_datasets(file)}"
    if path.suffix in {".h5", ".hdf5"}:
        with path.open("rb") as file:
            return _datasets(file)
    if path.suffix in {".npy", ".npz"}:
        return _arrays(path)
    if path.suffix == ".png":
        from PIL import Image

        with Image.open(path) as image:
            image.load()
            return f"{image.mode} {image.size}"
    return "something" if path.stat().st_size else "nothing"


def _datasets(file: object) -> str:
    import h5py

    names: list[str] = []

    def note(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset):
            names.append(f"{name} {item[()].shape}")

    with h5py.File(file, "r") as content:
        content.visititems(note)
    return "; ".join(sorted(names))


def _arrays(path: Path) -> str:
    import numpy as np

    loaded = np.load(path)
    if path.suffix == ".npy":
        return f"{loaded.dtype} {loaded.shape}"
    with loaded:
        return "; ".join(f"{name} {loaded[name].shape}" for name in sorted(loaded.files))


def _alike(a: str, b: str) -> bool:
    if a == b:
        return True
    if _words(a) != _words(b):
        return False
    return all(_near(x, y) for x, y in zip(_NUMBER.findall(a), _NUMBER.findall(b), strict=True))


def _words(line: str) -> str:
    """*line* without its numbers and spaces."""
    return "".join(_NUMBER.sub("#", line).split())


def _near(a: str, b: str) -> bool:
    places = max(_places(a), _places(b))
    if not places:
        return a == b
    x, y = float(a), float(b)
    return abs(x - y) <= RELATIVE * max(abs(x), abs(y)) + 1.01 * 10.0**-places


def _places(number: str) -> int:
    """Number of digits that were printed after the decimal point; 0 for an integer."""
    digits, _, exponent = number.partition("e")
    after = len(digits.partition(".")[2])
    if not exponent:
        return after + ("." in digits and not after)
    return max(1, after - int(exponent))


def _shown(text: str | None) -> str:
    if text is None:
        return "nothing"
    return repr(text if len(text) <= 160 else f"{text[:160]}...")
