"""Ways to prune the small ResNet further while it learns, beside each other: JSON lines.

    python -m ci.benchmarks.pruned_resnet cifar10_jpeg.h5 [--ways twin,plain,ahead,first,distilled]
                                          [--images 10000] [--epochs 12] [--seeds 1]

Each training is that of ``examples/07_apoptosis_images.py --model resnet`` to a ratio of .68, in a
process of its own with one thread:

* ``twin``: without apoptosis.
* ``plain``: events at each epoch's end, which may raise the loss by 5 %.
* ``ahead``: events at every second epoch's end, which may raise it by 10 %: what two epochs of
  training get back.
* ``first``: the first convolution, and with it the residual sums of the first stage, keep their
  channels.
* ``distilled``: after an event half of the loss is the distance to the probabilities of the network
  before it (Hinton et al., arXiv:1503.02531), at a temperature of 2.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from ci.benchmarks.turns import ONE_THREAD
from ci.jobs import ROOT, environment

WAYS = ("twin", "plain", "ahead", "first", "distilled")
RATIO, BATCH, RATE = 0.68, 128, 1e-3
TEMPERATURE, WEIGHT = 2.0, 0.5


def taught(model: Any) -> tuple[Any, list[Any]]:
    """*model* as one that learns from a teacher too, and the callback that chooses the teacher.

    The callback stands on both sides of apoptosis: it keeps the network before an event.
    """
    import keras
    from keras import ops

    class Pupil(keras.Model):  # type: ignore[misc]
        teacher: Any = None

        def compute_loss(
            self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None, training: Any = True
        ) -> Any:
            loss = super().compute_loss(x, y, y_pred, sample_weight, training)
            if self.teacher is None or not training:
                return loss
            soft = (softened(self.teacher(x, training=False)), softened(y_pred))
            distance = ops.mean(keras.losses.kl_divergence(*soft))
            return (1 - WEIGHT) * loss + WEIGHT * TEMPERATURE**2 * distance

    def softened(probabilities: Any) -> Any:
        return ops.softmax(ops.log(probabilities + 1e-7) / TEMPERATURE)

    class Before(keras.callbacks.Callback):  # type: ignore[misc]
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            if epoch >= 1:
                kept.clear()
                copy = keras.Model.from_config(self.model.get_config())
                copy.set_weights(self.model.get_weights())
                kept.append(copy)

    class After(keras.callbacks.Callback):  # type: ignore[misc]
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            if kept and kept[0].count_params() > self.model.count_params():
                # Not tracked: the teacher is no part of the model.
                object.__setattr__(self.model, "teacher", kept[0])

    kept: list[Any] = []
    pupil = Pupil(model.inputs, model.outputs)
    return pupil, [Before(), After()]


def train(data: Path, way: str, images: int, epochs: int, seed: int) -> dict[str, Any]:
    """One training; what came of it."""
    sys.path.insert(0, str(ROOT / "examples"))
    networks: Any = importlib.import_module("course.networks")
    pictures: Any = importlib.import_module("course.pictures")
    import keras

    import matex
    import matex.data

    given = argparse.Namespace(data=data, images=images, side=32, seed=seed, model="resnet")
    rows = pictures.open_rows(given)
    random = {"crop": 0.6, "flip": True}
    training = matex.data.as_dataset(
        rows.x_train, rows.y_train, batch_size=BATCH, shuffle=seed, **random
    )
    test = matex.data.as_dataset(rows.x_test, rows.y_test, batch_size=BATCH)
    keras.utils.set_random_seed(seed)
    model = networks.resnet(rows.x_train.shape[1:], 10)
    before, after = [], []
    if way == "distilled":
        model, (first, last) = taught(model)
        before, after = [first], [last]
    rate = keras.optimizers.schedules.CosineDecay(RATE, epochs * len(training))
    optimizer, loss = keras.optimizers.Adam(rate), "sparse_categorical_crossentropy"
    model.compile(optimizer, loss, metrics=["accuracy"])
    parameters = model.count_params()
    apoptosis = matex.Apoptosis(
        every=2 if way == "ahead" else 1,
        delta=0.1 if way == "ahead" else 0.05,
        exclude=(model.layers[2].name,) if way == "first" else (),
        pruning_ratio=RATIO,
        data=(rows.x_train, rows.y_train),
        validation_data=(rows.x_test, rows.y_test),
    )
    started = time.process_time()
    history = model.fit(
        training, validation_data=test, shuffle=False, epochs=epochs, verbose=0,
        callbacks=[] if way == "twin" else [*before, apoptosis, *after],
    )  # fmt: skip
    sizes = [[event["epoch"], event["parameters"]] for event in apoptosis.events]
    return {
        "way": way,
        "seed": seed,
        "fewer": round(parameters / model.count_params(), 2),
        "accuracy": [round(value, 4) for value in history.history["val_accuracy"]],
        "parameters": [[0, parameters], *sizes],
        "cpu_s": round(time.process_time() - started),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--ways", default=",".join(WAYS), help="some, with commas between")
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--seeds", default="1", help="some, with commas between")
    parser.add_argument("--one", action="store_true", help="set by this program for a training")
    given = parser.parse_args()
    if given.one:
        result = train(given.data, given.ways, given.images, given.epochs, int(given.seeds))
        print(json.dumps(result), flush=True)
        return
    for seed in given.seeds.split(","):
        for way in given.ways.split(","):
            words = [given.data, "--one", "--ways", way, "--seeds", seed]
            words += ["--images", given.images, "--epochs", given.epochs]
            module = [sys.executable, "-m", "ci.benchmarks.pruned_resnet", *map(str, words)]
            subprocess.run(module, env=environment(**ONE_THREAD), check=True)


if __name__ == "__main__":
    main()
