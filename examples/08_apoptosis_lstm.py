"""A character model whose recurrent units die when the others can do their work.

    python 08_apoptosis_lstm.py --data tinyshakespeare.h5

--data is an HDF5 file with pieces of letters as numbers, x_train, x_test, shape (n, length), and
the same shifted by one, y_train, y_test; or any text file, of which the last tenth is held out.
Without --data it reads the reference that comes with Python.
"""

import pydoc_data.topics

import apoptosis_options
import h5py
import numpy as np
import options


def load(args):
    """Pieces x and y to train on, x and y to test on, and how many letters there are."""
    if args.data is not None and h5py.is_hdf5(args.data):
        with h5py.File(args.data, locking=False) as file:
            parts = [
                file[n][:].astype(np.int32) for n in ("x_train", "y_train", "x_test", "y_test")
            ]
        return parts, 1 + int(max(part.max() for part in parts))
    topics = pydoc_data.topics.topics
    whole = "\n".join(topics[name] for name in sorted(topics)).encode("ascii", "replace")
    text = whole if args.data is None else args.data.read_bytes()
    names, numbers = np.unique(np.frombuffer(text[: args.letters], np.uint8), return_inverse=True)
    rows = (len(numbers) - 1) // args.length
    if rows < 2:
        raise ValueError(f"a text of 2 pieces or more is wanted. Received: {len(text)} letters")
    x, y = (numbers[i : i + rows * args.length].reshape(rows, args.length) for i in (0, 1))
    cut = rows - max(1, rows // 10)
    return [x[:cut], y[:cut], x[cut:], y[cut:]], len(names)


def main() -> None:
    parser = apoptosis_options.parser(
        "Train an LSTM on text with apoptosis.",
        data="an HDF5 or text file",
        epochs=12,
        batch_size=128,
        learning_rate=3e-3,
    )
    # It learns for long, and needs in the end what it does not use yet.
    parser.set_defaults(mode="conservative", ratio=0.4)
    parser.add_argument("--units", type=options.count, default=256, help="of the LSTM")
    parser.add_argument("--length", type=options.count, default=64, help="letters of a piece")
    parser.add_argument("--letters", type=options.count, default=200_000, help="to read of a text")
    args = parser.parse_args()
    try:
        (x_train, y_train, x_test, y_test), characters = load(args)
    except ValueError as error:
        parser.error(str(error))
    import keras

    keras.utils.set_random_seed(args.seed)
    model = keras.Sequential(
        [
            keras.Input((x_train.shape[1],), dtype="int32"),
            keras.layers.Embedding(characters, 64),
            keras.layers.LSTM(args.units, return_sequences=True),
            keras.layers.Dense(characters, "softmax"),
        ]
    )
    model.compile(
        keras.optimizers.Adam(args.learning_rate),
        "sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    apoptosis_options.fit(
        model, args, x_train, y_train, validation=(x_test, y_test), metric="accuracy"
    )


if __name__ == "__main__":
    main()
