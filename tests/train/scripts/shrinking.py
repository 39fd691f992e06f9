"""A plain Keras script for the tests: a network that shrinks while it trains."""

import argparse
import json
import pathlib

import keras
import numpy as np

import matex

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--criterion", default="gram")
parser.add_argument("--mode", default="natural")
parser.add_argument("--kind", default="arrays")
parser.add_argument("--attached", action="store_true", help="the callback comes from outside")
parser.add_argument("--stop-after", type=int, help="the script ends itself after this epoch")
parser.add_argument("--out", help="where the leader writes what became of the layers")
parser.add_argument("--scores", action="store_true", help="score by the loss before training")
args = parser.parse_args()

keras.utils.set_random_seed(11)
generator = np.random.default_rng(3)
x = generator.normal(size=(1200, 12)).astype("float32")
y = (x[:, 0] * x[:, 1] + 0.3 * x[:, 2] > 0).astype("float32")
layers = keras.layers
inputs = keras.Input((12,))
hidden = layers.Dense(48, "relu", name="a")(inputs)
hidden = layers.Dense(40, use_bias=False, name="b")(hidden)
hidden = layers.Add()([layers.Dense(40, "tanh", name="c")(layers.ReLU()(hidden)), hidden])
model = keras.Model(inputs, layers.Dense(1, "sigmoid", name="out")(hidden))
model.compile(keras.optimizers.Adam(3e-3), "binary_crossentropy", metrics=["accuracy"])

scored = {}


class Scores(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        from matex.apoptosis.graph.forward import Forward
        from matex.apoptosis.held_out_loss import HeldOutLoss
        from matex.apoptosis.peers import peers_of_process
        from matex.apoptosis.samples import sample_of
        from matex.apoptosis.schedule import MODES, Thresholds
        from matex.apoptosis.trial import ModelTrial, Options

        sample, peers = sample_of({"x": x, "y": y}, 333), peers_of_process()
        for criterion in ("taylor", "oba"):
            held_out = HeldOutLoss(sample, Forward(self.model))
            trial = ModelTrial(
                self.model, Options(criterion=criterion), held_out=held_out, peers=peers
            )
            trial.measure(sample)
            thresholds = Thresholds(MODES["aggressive"]._replace(tau=1.0))
            removals = trial.decide(thresholds, None, reaches=False)
            scored[criterion] = [one.removal.removed.tolist() for one in removals]


callbacks = [Scores()] if args.scores else []
if not args.attached:
    callbacks.append(
        matex.Apoptosis(
            args.mode,
            args.criterion,
            first_epoch=1,
            every=1,
            delta=0.005 if args.mode == "adaptive" else None,
            samples=500,
        )
    )
if args.stop_after:

    class Stop(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch == args.stop_after:
                raise SystemExit(0)

    callbacks.append(Stop())
data = {"x": x[:1000], "y": y[:1000], "batch_size": 100}
if args.kind == "stream":
    import tensorflow as tf

    data = {"x": tf.data.Dataset.from_tensor_slices((x[:1000], y[:1000])).batch(100)}
history = model.fit(
    **data,
    epochs=args.epochs,
    validation_data=(x[1000:], y[1000:]),
    callbacks=callbacks,
    verbose=2,
)
predicted = model.predict(x[:50], verbose=0)
print("widths", [model.get_layer(name).units for name in "abc"], "parameters", model.count_params())
if args.out:  # all ranks write the same
    kept = {
        v.path: {axis: left.tolist() for axis, left in getattr(v, "matex_kept", {}).items()}
        for v in model.weights
    }
    outcome = {
        "kept": kept,
        "loss": history.history["val_loss"],
        "units": model.get_layer("a").units,
        "scored": scored,
    }
    pathlib.Path(f"{args.out}-{matex.rank()}.json").write_text(json.dumps(outcome))
