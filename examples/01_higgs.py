"""A plain Keras script: the HIGGS classifier of Baldi, Sadowski, Whiteson (arXiv:1402.4735).

    python 01_higgs.py --data HIGGS.csv.gz

takes the file of https://archive.ics.uci.edu/dataset/280/higgs, or an HDF5 file with the arrays
x_train, y_train, x_test, y_test (quicker to read). Without --data it simulates events.
"""

from course import higgs, options

parser = options.Parser(
    "Train the HIGGS classifier 28-300-300-300-1.",
    data="HIGGS.csv.gz or an HDF5 file",
    epochs=5,
    batch_size=512,
    learning_rate=3e-4,
)
parser.add_argument("--events", type=options.count, default=100_000, help="events without --data")
parser.add_argument("--width", type=options.count, default=300, help="units of a hidden layer")
args, data = parser.parse(higgs.load)

import keras  # slow and talkative: by now bad input has had its one line

keras.utils.set_random_seed(args.seed)
hidden = [keras.layers.Dense(args.width, activation="relu") for _ in range(3)]
output = keras.layers.Dense(1, activation="sigmoid")
model = keras.Sequential([keras.Input((28,)), *hidden, output])
model.compile(
    optimizer=keras.optimizers.Adam(args.learning_rate),
    loss="binary_crossentropy",
    metrics=[keras.metrics.AUC(name="auc")],
)
model.fit(
    data.x_train,
    data.y_train,
    validation_data=(data.x_test, data.y_test),
    epochs=args.epochs,
    batch_size=args.batch_size,
    verbose=2,
)
loss, auc = model.evaluate(data.x_test, data.y_test, batch_size=args.batch_size, verbose=0)
print(f"test loss {loss:.4f}, test AUC {auc:.4f}", flush=True)
