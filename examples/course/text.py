"""Pieces of a text as numbers: of a text file, of an HDF5 file, or of Python's own reference."""

import argparse
import pydoc_data.topics
from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np


class Text(NamedTuple):
    """Letters as numbers, (pieces, length) int32; y is x one letter on. vocab: their bytes."""

    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    vocab: bytes


def load(args: argparse.Namespace) -> Text:
    """--letters of --data in pieces of --length, or of the reference that help() shows."""
    if args.data is None:
        print("No --data: reading the reference that comes with Python ...", flush=True)
        topics = pydoc_data.topics.topics
        whole = "\n".join(topics[name] for name in sorted(topics)).encode("ascii", "replace")
        text = cut(whole[: args.letters], args.length, "Python's reference")
    elif args.data.is_dir():
        raise ValueError(f"--data wants a text or an HDF5 file. Received: {args.data}, a folder.")
    elif h5py.is_hdf5(args.data):
        text = read_hdf5(args.data)
    else:
        with args.data.open("rb") as file:
            text = cut(file.read(args.letters), args.length, str(args.data))
    print(f"{text.x_train.size:,} letters of {len(text.vocab)} kinds to train on", flush=True)
    return text


def cut(text: bytes, length: int, where: str) -> Text:
    """Pieces of a text, the last tenth of them for the test; ValueError where it is too short."""
    pieces = (len(text) - 1) // length
    if pieces < 2:
        raise ValueError(
            f"{where} must have at least {2 * length + 1} letters. Received: {len(text)}."
        )
    vocab, numbers = np.unique(np.frombuffer(text, np.uint8), return_inverse=True)
    numbers = numbers.astype(np.int32)
    x = numbers[: pieces * length].reshape(pieces, length)
    y = numbers[1 : pieces * length + 1].reshape(pieces, length)
    train = pieces - max(1, pieces // 10)
    return Text(x[:train], y[:train], x[train:], y[train:], vocab.tobytes())


def read_hdf5(path: Path) -> Text:
    """The arrays of a file; ValueError where one is missing."""
    with h5py.File(path, locking=False) as file:
        missing = [name for name in Text._fields if name not in file]
        if missing:
            raise ValueError(
                f"{path} must have {', '.join(Text._fields)}. Missing: {', '.join(missing)}."
            )
        arrays = [file[name][:].astype(np.int32) for name in Text._fields[:-1]]
        return Text(*arrays, vocab=file["vocab"][:].tobytes())


def written(model, text: Text, *, letters: int, seed: int) -> str:
    """The text that *model*, which gives logits, writes after the first piece of the test."""
    rng, length = np.random.default_rng(seed), text.x_test.shape[1]
    numbers = text.x_test[0].tolist()
    for _ in range(letters):
        logits = np.asarray(model(np.array([numbers[-length:]], np.int32)))[0, -1]
        chances = np.exp(logits - logits.max())
        numbers.append(int(rng.choice(len(chances), p=chances / chances.sum())))
    return bytes(text.vocab[number] for number in numbers[length:]).decode("ascii", "replace")
