"""A character model whose recurrent units die when the others can do their work.

    python 08_apoptosis_lstm.py --data tinyshakespeare.h5

--data is an HDF5 file with windows of character numbers x_train, x_test, shape (n, time), and
the same shifted by one, y_train, y_test; or any text file, of which the last tenth is held out.
"""

import apoptosis_options
import numpy as np


def load(path, time: int):
    """Windows to train and to test on, and how many characters there are."""
    if path is None:
        raise SystemExit("08_apoptosis_lstm.py: --data is wanted. Received: none")
    if path.suffix == ".h5":
        import matex.data

        data = matex.data.open(path)
        parts = [np.asarray(getattr(data, n)) for n in ("x_train", "y_train", "x_test", "y_test")]
        return parts, int(max(part.max() for part in parts)) + 1
    names, text = np.unique(np.frombuffer(path.read_bytes(), np.uint8), return_inverse=True)
    rows = (len(text) - 1) // time
    x, y = (text[i : i + rows * time].reshape(rows, time) for i in (0, 1))
    cut = rows - max(1, rows // 10)
    return [x[:cut], y[:cut], x[cut:], y[cut:]], len(names)


def main() -> None:
    parser = apoptosis_options.parser(
        "Train an LSTM on text with apoptosis.", epochs=12, batch_size=128
    )
    parser.add_argument("--units", type=int, default=256)
    parser.add_argument("--time", type=int, default=64, help="characters of a window of a text")
    args = parser.parse_args()
    (x_train, y_train, x_test, y_test), characters = load(args.data, args.time)
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
        keras.optimizers.Adam(3e-3), "sparse_categorical_crossentropy", metrics=["accuracy"]
    )
    apoptosis_options.fit(
        model, args, x_train, y_train, validation=(x_test, y_test), metric="accuracy"
    )


if __name__ == "__main__":
    main()
