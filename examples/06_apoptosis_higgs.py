"""A HIGGS classifier, far too wide, that finds its own size while it trains.

    python 06_apoptosis_higgs.py --data HIGGS.csv.gz
    matex run -n 4 06_apoptosis_higgs.py --data higgs.h5

Without --data it simulates events. --mode none trains the twin that stays as wide as it is.
"""

from course import apoptosis, higgs, options

parser = apoptosis.parser(
    "Train 28-1024-1024-1024-1 on HIGGS with apoptosis.",
    data="HIGGS.csv.gz or an HDF5 file",
    epochs=20,
    batch_size=512,
    learning_rate=3e-4,
)
add = parser.add_argument
add("--width", type=options.count, default=1024, help="units of each hidden layer")
add("--events", type=options.count, default=50_000, help="events without --data")
args, data = parser.parse(higgs.load)

import keras  # slow and talkative: by now bad input has had its one line

keras.utils.set_random_seed(args.seed)
hidden = [keras.layers.Dense(args.width, "relu", name=f"hidden_{i}") for i in (1, 2, 3)]
model = keras.Sequential([keras.Input((28,)), *hidden, keras.layers.Dense(1, "sigmoid")])
model.compile(
    keras.optimizers.Adam(args.learning_rate),
    "binary_crossentropy",
    metrics=[keras.metrics.AUC(name="auc")],
)
apoptosis.fit(model, args, data, metric="auc")
