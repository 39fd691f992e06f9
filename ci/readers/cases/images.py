"""Folders of images, written and read by PIL; kinds of BMP that PIL does not write, by hand."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ci.readers.cases.case import Case, Members

__all__ = ["CASES"]

_DICE = np.random.default_rng(0)
# Smooth, so that lossy formats come near.
_RAMP = np.add.outer(np.arange(16) * 6, np.arange(12) * 9).astype(np.uint8)
_COLOUR = np.stack([_RAMP, 255 - _RAMP, _RAMP // 2 + 60], -1)
_NOISE = _DICE.integers(0, 256, (16, 12, 3), np.uint8)
_JPEG_WITHIN = 12.0  # of 255: decoders round differently, most where colours are scaled up


def _read(path: Path) -> Members:
    """All images that PIL can read, sorted by class and name, as RGB; the number of the class."""
    rows, labels = [], []
    for number, folder in enumerate(sorted(entry for entry in path.iterdir() if entry.is_dir())):
        for file in sorted(entry for entry in folder.rglob("*") if entry.is_file()):
            if file.suffix.lower() in Image.registered_extensions():
                rows.append(_pixels(file))
                labels.append(number)
    return {"x": np.stack(rows), "y": np.array(labels)}


def _pixels(file: Path) -> np.ndarray:
    with Image.open(file) as image:
        if image.mode.startswith("I"):  # 16 bits, of which the upper ones are shown
            grey = (np.asarray(image) >> 8).astype(np.uint8)
            return np.stack([grey] * 3, -1)
        if image.mode in ("RGBA", "LA"):  # without alpha: not laid over black
            return np.asarray(image.convert("RGBA"))[..., :3]
        return np.asarray(image.convert("RGB"))


def _by_pil(
    name: str, file: str, image: Callable[[], Any], *, word: str = "", within: float = 0.0,
    **how: Any,
) -> Case:  # fmt: skip
    """Two classes with two copies of an image each."""

    def write(path: Path) -> None:
        for folder in ("a", "b"):
            (path / folder).mkdir(parents=True)
            for number in range(2):
                image().save(path / folder / f"{number}{file}", **how)

    return Case(name, "set", write, _read, word, within=within)


def _raw(name: str, file: str, content: bytes, *, word: str = "") -> Case:
    """A case like those of *_by_pil*, with an image that is written by hand."""

    def write(path: Path) -> None:
        for folder in ("a", "b"):
            (path / folder).mkdir(parents=True)
            (path / folder / f"0{file}").write_bytes(content)

    return Case(name, "set", write, _read, word)


def _tree(name: str, add: Callable[[Path], Any], *, read: Any = _read, word: str = "") -> Case:
    """Two classes of PNG images, and what *add* puts beside them."""

    def write(path: Path) -> None:
        for folder in ("a", "b"):
            (path / folder).mkdir(parents=True)
            Image.fromarray(_NOISE).save(path / folder / "0.png")
        add(path)

    return Case(name, "set", write, read, word)


def _bmp(bits: int, pixels: bytes, *, height: int = 4, compression: int = 0) -> bytes:
    """A BMP of four by four pixels with a palette of 2^bits colours; height below 0: top-down."""
    colours = 1 << bits
    palette = bytes(
        value for c in range(colours) for value in (c * 7 % 256, c * 3 % 256, 255 - c * 5 % 256, 0)
    )
    start = 54 + len(palette)
    head = struct.pack("<2sIHHI", b"BM", start + len(pixels), 0, 0, start)
    info = struct.pack(
        "<IiiHHIIiiII", 40, 4, height, 1, bits, compression, len(pixels), 2835, 2835, colours, 0
    )
    return head + info + palette + pixels


def _bmp_top_down() -> bytes:
    """24 bits, the first row of the picture first."""
    pixels = _NOISE[:4, :4, ::-1].tobytes()
    head = struct.pack("<2sIHHI", b"BM", 54 + len(pixels), 0, 0, 54)
    info = struct.pack("<IiiHHIIiiII", 40, 4, -4, 1, 24, 0, len(pixels), 2835, 2835, 0, 0)
    return head + info + pixels


def _grey() -> Any:
    return Image.fromarray(_RAMP)


def _colour() -> Any:
    return Image.fromarray(_COLOUR)


def _noise() -> Any:
    return Image.fromarray(_NOISE)


def _alpha() -> Any:
    return Image.fromarray(np.dstack([_NOISE, _NOISE[..., 0]]))


def _turned() -> Any:
    """A case with an orientation mark that asks for a turn, which neither reader makes."""
    image = _colour()
    image.getexif()[0x0112] = 6
    return image


def _saved(path: Path, image: Any = None, **how: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    (image or _noise()).save(path, **how)


def _numbered(path: Path) -> None:
    for number in (10, 9):
        _saved(path / str(number) / "0.png")


def _parts(path: Path) -> None:
    for part in ("train", "val"):
        for folder in ("a", "b"):
            _saved(path / part / folder / "0.png")


def _parts_read(path: Path) -> Members:
    train, test = _read(path / "train"), _read(path / "val")
    return {"x_train": train["x"], "y_train": train["y"], "x_test": test["x"], "y_test": test["y"]}


_RLE = b"".join(b"\x04" + bytes([row]) + b"\0\0" for row in range(4)) + b"\0\1"

CASES = [
    _by_pil("JPEG", ".jpg", _colour, within=_JPEG_WITHIN),
    _by_pil("JPEG, colours in full", ".jpg", _colour, within=_JPEG_WITHIN, subsampling=0,
            quality=95),
    _by_pil("JPEG, grey", ".jpeg", _grey, within=_JPEG_WITHIN),
    _by_pil("JPEG, progressive", ".jpg", _colour, within=_JPEG_WITHIN, progressive=True),
    _by_pil("JPEG, CMYK", ".jpg", lambda: _colour().convert("CMYK"), within=_JPEG_WITHIN,
            word="CMYK"),
    _by_pil("JPEG, turned", ".jpg", _turned, within=_JPEG_WITHIN),
    _by_pil("JPEG in capitals", ".JPG", _colour, within=_JPEG_WITHIN),
    _by_pil("JPEG named .png", ".png", _colour, within=_JPEG_WITHIN, format="JPEG"),
    _by_pil("JPEG named .jpe", ".jpe", _colour, within=_JPEG_WITHIN, format="JPEG", word="jpe"),
    _by_pil("PNG", ".png", _noise),
    _by_pil("PNG, grey", ".png", _grey),
    _by_pil("PNG, 1 bit", ".png", lambda: _grey().convert("1")),
    _by_pil("PNG, palette", ".png", lambda: _noise().quantize(16)),
    _by_pil("PNG, 16 bits", ".png", lambda: Image.fromarray(_RAMP.astype(np.uint16) * 257),
            within=1.0),
    _by_pil("PNG, alpha", ".png", _alpha),
    _by_pil("PNG, grey and alpha", ".png", lambda: _alpha().convert("LA")),
    _by_pil("PNG, a transparent palette", ".png", lambda: _noise().quantize(16), transparency=3),
    _by_pil("GIF", ".gif", lambda: _noise().quantize(64)),
    _by_pil("GIF, grey", ".gif", _grey),
    _by_pil("GIF, several pictures", ".gif", lambda: _noise().quantize(64), save_all=True,
            append_images=[_colour().quantize(64)], word="frame|picture"),
    _by_pil("BMP, 24 bits", ".bmp", _noise),
    _by_pil("BMP, 32 bits", ".bmp", _alpha),
    _by_pil("BMP, grey", ".bmp", _grey),
    _by_pil("BMP, palette", ".bmp", lambda: _noise().quantize(64), word="palette|BMP"),
    _by_pil("BMP, 1 bit", ".bmp", lambda: _grey().convert("1"), word="bit|BMP"),
    _raw("BMP, 24 bits, top-down", ".bmp", _bmp_top_down()),
    _raw("BMP, 8 bits", ".bmp", _bmp(8, bytes(range(16))), word="palette|BMP"),
    _raw("BMP, 8 bits, top-down", ".bmp", _bmp(8, bytes(range(16)), height=-4),
         word="palette|BMP"),
    _raw("BMP, 4 bits", ".bmp", _bmp(4, bytes([1, 35, 0, 0] * 4)), word="bit|BMP"),
    _raw("BMP, RLE", ".bmp", _bmp(8, _RLE, compression=1), word="RLE|compress|BMP"),
    _by_pil("TIFF", ".tif", _noise, word="jpeg"),
    _by_pil("WebP", ".webp", _noise, lossless=True, word="jpeg"),
    _by_pil("PPM", ".ppm", _noise, word="jpeg"),
    _tree("one WebP among PNG", lambda path: _saved(path / "b" / "1.webp", lossless=True),
          word="webp"),
    _tree("folders in a class", lambda path: _saved(path / "b" / "more" / "1.png"), word="more"),
    _tree("words and lists beside the images", lambda path: (
        (path / "classes.txt").write_text("a\nb\n"), (path / "a" / "about.txt").write_text("x"),
        (path / "b" / "Thumbs.db").write_bytes(b"\xd0\xcf\x11\xe0"),
        (path / "b" / ".DS_Store").write_bytes(bytes(9)))),
    _tree("hidden folders", lambda path: (path / ".git").mkdir(),
          read=lambda path: {"x": np.stack([_NOISE] * 2), "y": np.arange(2)}),
    _tree("macOS's shadows", lambda path: (path / "a" / "._0.png").write_bytes(bytes(4096)),
          read=lambda path: {"x": np.stack([_NOISE] * 2), "y": np.arange(2)}, word=r"\._0"),
    _tree("an image beside the classes", lambda path: _saved(path / "stray.png")),
    _tree("an empty class", lambda path: (path / "aa").mkdir()),
    _tree("classes numbered", _numbered),
    _tree("train and val", _parts, read=_parts_read, word=""),
    _tree("an image of no bytes", lambda path: (path / "b" / "1.png").write_bytes(b""), read=None,
          word="1.png"),
    _tree("an image cut short", lambda path: (path / "b" / "1.png").write_bytes(
        (path / "b" / "0.png").read_bytes()[:-40]), read=None, word="1.png"),
    _tree("an image of another size", lambda path: _colour().resize((8, 8)).save(
        path / "b" / "1.png"), read=None, word="size"),
    _tree("words named .png", lambda path: (path / "b" / "1.png").write_text("no image"),
          read=None, word="1.png"),
    Case("images without classes", "set", lambda path: _saved(path / "0.png"), word="class"),
    Case("one image", "one.png", _saved, word="folder"),
    Case("an empty folder", "set", lambda path: path.mkdir(), word="folder"),
]  # fmt: skip
