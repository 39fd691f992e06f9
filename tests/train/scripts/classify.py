"""A plain Keras script for the tests: a small classifier on made data."""

import argparse
import os
import signal

import keras
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--batch-size", type=int, default=128)
parser.add_argument("--samples", type=int, default=2000)
parser.add_argument("--optimizer", default="adam")
parser.add_argument("--kind", default="plain")
parser.add_argument("--fits", type=int, default=1)
parser.add_argument("--validate", action="store_true")
parser.add_argument("--data", help="an HDF5 file to train from, row by row")
parser.add_argument("--end-all-at", type=int, help="every rank dies after this batch of epoch 1")
args = parser.parse_args()

keras.utils.set_random_seed(11)
generator = np.random.default_rng(3)
x = generator.normal(size=(args.samples, 12)).astype("float32")
y = (x[:, 0] * x[:, 1] + 0.3 * x[:, 2] > 0).astype("float32")
extra = {}
layers = keras.layers
if args.data:
    import h5py

    file = h5py.File(args.data)
    x, y = file["x"], file["y"]
if args.kind == "embedding":
    x = np.abs(x * 10).astype("int32")
    inner = [layers.Embedding(64, 4), layers.Flatten(), layers.Dense(1, "sigmoid")]
    model = keras.Sequential([keras.Input((12,), dtype="int32"), *inner])
elif args.kind == "two-inputs":
    a, b = keras.Input((6,), name="a"), keras.Input((6,), name="b")
    hidden = layers.Dense(24, "relu")(layers.Concatenate()([a, b]))
    model = keras.Model({"a": a, "b": b}, layers.Dense(1, "sigmoid")(hidden))
    x = {"a": x[:, :6], "b": x[:, 6:]}
else:
    hidden = [layers.Dense(24, "relu"), layers.Dense(24, "relu")]
    model = keras.Sequential([keras.Input((12,)), *hidden, layers.Dense(1, "sigmoid")])
if args.kind == "tf-data":
    import tensorflow as tf

    x = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(args.samples)
    x, y = x.map(lambda a, b: (2 * a, b)).batch(args.batch_size), None
if args.kind == "weighted":
    extra["sample_weight"] = generator.uniform(0.5, 2, size=args.samples).astype("float32")
if args.kind == "class-weight":
    extra["class_weight"] = {0: 1.0, 1: 3.0}
if args.kind == "regularized":
    for layer in hidden:
        layer.kernel_regularizer = keras.regularizers.L2(0.01)
if args.kind == "split":
    extra["validation_split"] = 0.25
if args.kind == "unshuffled":
    extra["shuffle"] = False
if args.kind == "custom":

    class Custom(keras.Sequential):
        def train_step(self, data):
            import tensorflow as tf

            inputs, target = data
            with tf.GradientTape() as tape:
                loss = self.compute_loss(y=target, y_pred=self(inputs, training=True))
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
            (tracker,) = (metric for metric in self.metrics if metric.name == "loss")
            tracker.update_state(loss, sample_weight=tf.shape(target)[0])
            return {"loss": tracker.result(), "plain": loss}

    model = Custom([keras.Input((12,)), *hidden, layers.Dense(1, "sigmoid")])

optimizer = keras.optimizers.get(args.optimizer)
if args.kind == "mixed":
    optimizer = keras.mixed_precision.LossScaleOptimizer(optimizer)
if args.kind == "schedule":
    optimizer = keras.optimizers.Adam(keras.optimizers.schedules.ExponentialDecay(1e-3, 10, 0.9))
if args.kind == "clipped":
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9, global_clipnorm=0.1)
metrics = [] if args.kind == "custom" else ["accuracy", keras.metrics.AUC(name="auc")]
model.compile(
    optimizer,
    "binary_crossentropy",
    metrics=metrics,
    weighted_metrics=[],
    jit_compile=args.kind == "jit",
    run_eagerly=args.kind == "eager",
    steps_per_execution=3 if args.kind == "at-once" else 1,
)
if args.validate:
    extra["validation_data"] = (x[:700], y[:700])


class EndAll(keras.callbacks.Callback):
    on_every_rank = True

    def __init__(self):
        super().__init__()
        self.epoch = 0

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if self.epoch == 1 and batch == args.end_all_at:
            os.kill(os.getpid(), signal.SIGKILL)


callbacks = [] if args.end_all_at is None else [EndAll()]
extra |= {"callbacks": callbacks, "verbose": 2}
if args.kind != "tf-data":
    extra["batch_size"] = args.batch_size
for _ in range(args.fits):
    model.fit(x, y, epochs=args.epochs, **extra)
if args.kind != "custom":
    print("evaluated", model.evaluate(x, y, batch_size=None if y is None else 200, verbose=0))
print("predicted", model.predict(x, verbose=0).shape)
