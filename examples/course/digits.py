"""Images of digits: those of a file, or drawn from a font for want of one."""

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import matex.data

ARRAYS = ("x_train", "y_train", "x_test", "y_test")
SIDE = 28

# Five columns by seven rows a digit, as on an old terminal.
FONT = """
01110 00100 01110 11111 00010 11111 00110 11111 01110 01110
10001 01100 10001 00010 00110 10000 01000 00001 10001 10001
10011 00100 00001 00100 01010 11110 10000 00010 10001 10001
10101 00100 00010 00010 10010 00001 11110 00100 01110 01111
11001 00100 00100 00001 11111 00001 10001 01000 10001 00001
10001 00100 01000 10001 00010 10001 10001 01000 10001 00010
01110 01110 11111 01110 00010 01110 01110 01000 01110 01100
"""


class Digits(NamedTuple):
    """Images (n, 28, 28) uint8, 0 for background, and what they show, (n,) in 0..9.

    Arrays, or rows of a file that are read when they are wanted.
    """

    x_train: Any
    y_train: Any
    x_test: Any
    y_test: Any


def load(args: argparse.Namespace) -> Digits:
    """The digits of --data, or --images drawn ones."""
    if args.data is not None:
        return read(args.data)
    print(f"No --data: drawing {args.images:,} digits from a font ...", flush=True)
    return draw(args.images, seed=args.seed)


def load_vectors(args: argparse.Namespace) -> np.ndarray:
    """The training images alone, (n, 784) float32 in 0..1."""
    pixels = load(args).x_train[:]
    print(f"{len(pixels):,} images", flush=True)
    return np.reshape(pixels, (len(pixels), -1)).astype(np.float32) / 255


def read(path: Path) -> Digits:
    """MNIST as an HDF5 file or as a folder of idx files; ValueError if it is neither."""
    data = matex.data.open(path)
    missing = [name for name in ARRAYS if name not in data]
    if missing:
        raise ValueError(f"{path} must have {', '.join(ARRAYS)}. Missing: {', '.join(missing)}.")
    digits = Digits(*(getattr(data, name) for name in ARRAYS))
    for name, images in (("x_train", digits.x_train), ("x_test", digits.x_test)):
        if images.shape[1:] != (SIDE, SIDE):
            raise ValueError(
                f"{path}: {name} must be images of {SIDE} x {SIDE}. Received: {images.shape}."
            )
    return digits


def draw(images: int, *, seed: int) -> Digits:
    """Digits of the font, each turned, slanted, scaled, moved and made noisy; a tenth for test."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 10, images)
    # Where in the glyph each pixel looks: an affine map about the middle.
    rows, columns = np.mgrid[:SIDE, :SIDE].reshape(2, -1) - (SIDE - 1) / 2
    angle = rng.normal(0, 0.15, (images, 1))
    slant = rng.normal(0, 0.2, (images, 1))
    size = rng.uniform(2.2, 3.2, (images, 2, 1))  # pixels of the image to one of the font
    shift = rng.normal(0, 1.2, (images, 2, 1))
    y, x = rows + shift[:, 0], columns + shift[:, 1]
    y, x = np.cos(angle) * y - np.sin(angle) * x, np.sin(angle) * y + np.cos(angle) * x + slant * y
    ink = _between(_glyphs()[labels], y / size[:, 0] + 4, x / size[:, 1] + 3)
    noisy = 255 * ink + rng.normal(0, 12, ink.shape)
    pixels = np.clip(noisy, 0, 255).astype(np.uint8).reshape(images, SIDE, SIDE)
    test = max(1, images // 10)
    return Digits(pixels[test:], labels[test:], pixels[:test], labels[:test])


def _glyphs() -> np.ndarray:
    """The font, (10, 9, 7), with an empty border."""
    lines = [line.split() for line in FONT.split("\n") if line]
    glyphs = np.array([[list(map(int, row)) for row in line] for line in lines], np.float32)
    return np.pad(glyphs.swapaxes(0, 1), ((0, 0), (1, 1), (1, 1)))


def _between(glyphs: np.ndarray, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The glyphs (n, h, w) at real places (n, pixels), by linear interpolation, 0 outside."""
    height, width = glyphs.shape[1:]
    y, x = np.clip(y, 0, height - 1.001), np.clip(x, 0, width - 1.001)
    top, left = y.astype(int), x.astype(int)
    down, right = y - top, x - left
    which = np.arange(len(glyphs))[:, None]
    upper = glyphs[which, top, left] * (1 - right) + glyphs[which, top, left + 1] * right
    lower = glyphs[which, top + 1, left] * (1 - right) + glyphs[which, top + 1, left + 1] * right
    return upper * (1 - down) + lower * down
