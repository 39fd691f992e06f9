"""One network, and the strategies by which ranks can share its training.

    matex run -n 4 --strategy gossip 09_strategies.py --data higgs.h5

takes what 01_higgs.py takes. Try sync, gossip, daso, easgd and downpour with the same epochs, and
look at the held-out AUC and at messages_per_step, bytes_per_step, step_s and staleness in
--report's summary.json. With all but sync a rank updates by the gradient of its own rows, which is
noisier than that of the batch; Adam then wants a larger rate: --lr-scaling sqrt --warmup-epochs 0.
"""

from course import higgs, options

import matex

WHEN = {
    "sync": "exact; use it where the network carries the gradients in the time of a step",
    "gossip": "for many ranks, and a model that travels in the time of a step",
    "daso": "for hosts of several ranks that a slow network joins",
    "easgd": "for networks so slow that every exchange is dear",
    "downpour": "for slow networks, where nobody should wait for the others",
}
words = "Train the HIGGS classifier by the strategy that matex run --strategy names."
defaults = {"epochs": 5, "batch_size": 512, "learning_rate": 3e-4}
parser = options.Parser(words, data="HIGGS.csv.gz or an HDF5 file", **defaults)
parser.add_argument("--events", type=options.count, default=50_000, help="events without --data")
parser.add_argument("--width", type=options.count, default=200, help="units of a hidden layer")
args, data = parser.parse(higgs.load)
strategy = matex.strategy()
print(f"{matex.size()} ranks by strategy {strategy}: {WHEN[strategy]}", flush=True)

import keras  # slow and talkative: by now bad input has had its one line

keras.utils.set_random_seed(args.seed)
hidden = [keras.layers.Dense(args.width, activation="relu") for _ in range(3)]
output = keras.layers.Dense(1, activation="sigmoid")
model = keras.Sequential([keras.Input((28,)), *hidden, output])
auc = keras.metrics.AUC(name="auc")
model.compile(keras.optimizers.Adam(args.learning_rate), "binary_crossentropy", metrics=[auc])
validation = (data.x_test, data.y_test)
passes = {"epochs": args.epochs, "batch_size": args.batch_size}
history = model.fit(data.x_train, data.y_train, validation_data=validation, verbose=2, **passes)
print(f"held-out AUC by {strategy}: {history.history['val_auc'][-1]:.4f}", flush=True)
options.show_losses(history.history["loss"])
