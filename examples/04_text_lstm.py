"""A plain Keras script: an LSTM learns to write a text letter by letter.

    python 04_text_lstm.py --data book.txt

takes any text file, or an HDF5 file with the arrays x_train, y_train, x_test, y_test (letters as
numbers, y one letter ahead of x) and vocab (the byte of each number). Without --data it reads the
reference that comes with Python, which help() shows.
"""

from course import options, text

parser = options.Parser(
    "Train an LSTM to write a text letter by letter.",
    data="a text, or an HDF5 file like tinyshakespeare.h5",
    epochs=3,
    batch_size=64,
    learning_rate=3e-3,
)
parser.add_argument("--length", type=options.count, default=64, help="letters of a piece")
parser.add_argument("--letters", type=options.count, default=200_000, help="letters to read")
parser.add_argument("--units", type=options.count, default=128, help="units of the LSTM")
parser.add_argument("--write", type=options.count, default=200, help="letters to write")
args, data = parser.parse(text.load)

import keras  # slow and talkative: by now bad input has had its one line

keras.utils.set_random_seed(args.seed)
model = keras.Sequential(
    [
        keras.Input((None,), dtype="int32"),
        keras.layers.Embedding(len(data.vocab), 32),
        keras.layers.LSTM(args.units, return_sequences=True),
        keras.layers.Dense(len(data.vocab)),
    ]
)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.Adam(args.learning_rate), loss, metrics=["accuracy"])
validation = (data.x_test, data.y_test)
passes = {"epochs": args.epochs, "batch_size": args.batch_size}
history = model.fit(data.x_train, data.y_train, validation_data=validation, verbose=2, **passes)
print(text.written(model, data, letters=args.write, seed=args.seed), flush=True)
options.show_losses(history.history["loss"])
