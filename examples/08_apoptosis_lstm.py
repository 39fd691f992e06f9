"""A character model whose recurrent units die when the others can do their work.

    python 08_apoptosis_lstm.py --data tinyshakespeare.h5

takes what 04_text_lstm.py takes, and without --data reads the reference that comes with Python.
"""

from course import apoptosis, options, text

parser = apoptosis.parser(
    "Train an LSTM on text with apoptosis.",
    data="a text, or an HDF5 file like tinyshakespeare.h5",
    epochs=12,
    batch_size=128,
    learning_rate=3e-3,
)
# It learns for long, and needs in the end what it does not use yet.
parser.set_defaults(mode="conservative", ratio=0.4)
parser.add_argument("--units", type=options.count, default=256, help="units of the LSTM")
parser.add_argument("--length", type=options.count, default=64, help="letters of a piece")
parser.add_argument("--letters", type=options.count, default=200_000, help="letters to read")
args, data = parser.parse(text.load)

import keras  # slow and talkative: by now bad input has had its one line

keras.utils.set_random_seed(args.seed)
model = keras.Sequential(
    [
        keras.Input((data.x_train.shape[1],), dtype="int32"),
        keras.layers.Embedding(len(data.vocab), 64),
        keras.layers.LSTM(args.units, return_sequences=True),
        keras.layers.Dense(len(data.vocab), "softmax"),
    ]
)
model.compile(
    keras.optimizers.Adam(args.learning_rate),
    "sparse_categorical_crossentropy",
    metrics=["accuracy"],
)
apoptosis.fit(model, args, data, metric="accuracy")
