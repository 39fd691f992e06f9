"""A plain Keras script: an LSTM learns to write a text letter by letter.

    python 04_text_lstm.py --data book.txt

takes any text file, or an HDF5 file with the arrays x_train, y_train, x_test, y_test (letters as
numbers, y one letter ahead of x) and vocab (the byte of each number). Without --data it reads the
reference that comes with Python, which help() shows.
"""

import argparse
import pydoc_data.topics
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import options


class Text(NamedTuple):
    """Letters as numbers, (pieces, length) int32; y is x one letter on. vocab: their bytes."""

    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    vocab: bytes


def arguments(parser: options.Parser) -> argparse.Namespace:
    parser.add_argument("--length", type=options.count, default=64, help="letters of a piece")
    parser.add_argument("--letters", type=options.count, default=200_000, help="to read of a text")
    parser.add_argument("--units", type=options.count, default=128, help="of the LSTM")
    parser.add_argument("--write", type=options.count, default=200, help="letters in the end")
    return parser.parse_args()


def load(args: argparse.Namespace) -> Text:
    if args.data is None:
        print("No --data: reading the reference that comes with Python ...", flush=True)
        topics = pydoc_data.topics.topics
        whole = "\n".join(topics[name] for name in sorted(topics)).encode("ascii", "replace")
        return cut(whole[: args.letters], args.length, "Python's reference")
    print(f"Reading {args.data} ...", flush=True)
    if h5py.is_hdf5(args.data):
        return read_hdf5(args.data)
    if args.data.is_dir():
        raise ValueError(f"--data wants a text or an HDF5 file. Received: {args.data}, a folder.")
    with args.data.open("rb") as file:
        return cut(file.read(args.letters), args.length, str(args.data))


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
    with h5py.File(path, locking=False) as file:
        missing = [name for name in Text._fields if name not in file]
        if missing:
            raise ValueError(
                f"{path} must have {', '.join(Text._fields)}. Missing: {', '.join(missing)}."
            )
        arrays = [file[name][:].astype(np.int32) for name in Text._fields[:-1]]
        return Text(*arrays, vocab=file["vocab"][:].tobytes())


def train(args: argparse.Namespace, text: Text) -> None:
    import keras  # slow and talkative: not before bad input has had its one line

    keras.utils.set_random_seed(args.seed)
    layers = [
        keras.layers.Embedding(len(text.vocab), 32),
        keras.layers.LSTM(args.units, return_sequences=True),
        keras.layers.Dense(len(text.vocab)),
    ]
    model = keras.Sequential([keras.Input((None,), dtype="int32"), *layers])
    model.compile(
        optimizer=keras.optimizers.Adam(args.learning_rate),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    history = model.fit(
        text.x_train,
        text.y_train,
        validation_data=(text.x_test, text.y_test),
        epochs=args.epochs,
        batch_size=args.batch_size,
        verbose=2,
    )
    print(written(model, text, args.write, args.seed), flush=True)
    options.show_losses(history.history["loss"])


def written(model: Any, text: Text, letters: int, seed: int) -> str:
    """What the model goes on to write after the first piece of the test."""
    rng, length = np.random.default_rng(seed), text.x_test.shape[1]
    numbers = text.x_test[0].tolist()
    for _ in range(letters):
        logits = np.asarray(model(np.array([numbers[-length:]], np.int32)))[0, -1]
        chances = np.exp(logits - logits.max())
        numbers.append(int(rng.choice(len(chances), p=chances / chances.sum())))
    return bytes(text.vocab[number] for number in numbers[length:]).decode("ascii", "replace")


def main() -> None:
    parser = options.course_parser(
        "Train an LSTM to write a text letter by letter.",
        data="a text, or an HDF5 file like tinyshakespeare.h5",
        epochs=3,
        batch_size=64,
        learning_rate=3e-3,
    )
    args = arguments(parser)
    try:
        text = load(args)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    print(f"{text.x_train.size:,} letters of {len(text.vocab)} kinds to train on", flush=True)
    train(args, text)


if __name__ == "__main__":
    main()
