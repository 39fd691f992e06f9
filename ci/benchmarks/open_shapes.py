"""Steps whose graph outlives a cut, against steps that are traced anew: one JSON object a line.

    python -m ci.benchmarks.open_shapes [--rounds 30]

Apoptosis traces a step anew after each event, because shapes of variables are part of a graph.
Variables whose shapes are open could be given smaller values under the same graph. This compares
both in plain Keras on one core, with Adam: milliseconds of a step before a cut of each hidden layer
to a half of its units and after it, and seconds that tracing and the first step take, which the
open graph saves at each event. ``ratio`` is the open step's time by the other's; ``largest
difference`` is that of any weight after all steps, from the same start on the same rows.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

from ci.benchmarks import turns

CASES = (("dense", 1024), ("dense", 128), ("convolution", 32), ("convolution", 8))
STEPS = 5


def network(kind: str, width: int) -> Any:
    """A compiled classifier of three hidden layers of *width* units, with its optimizer built."""
    import keras
    from keras import layers

    keras.utils.set_random_seed(1)
    if kind == "dense":
        stack = [keras.Input((28,)), *(layers.Dense(width, "relu") for _ in range(3))]
    else:
        stack = [keras.Input((32, 32, 3))]
        for _ in range(3):
            stack += [layers.Conv2D(width, 3, padding="same", use_bias=False)]
            stack += [layers.BatchNormalization(), layers.ReLU()]
        stack += [layers.GlobalAveragePooling2D()]
    model = keras.Sequential([*stack, layers.Dense(1, "sigmoid")])
    model.compile(keras.optimizers.Adam(1e-4), "binary_crossentropy")
    model.optimizer.build(model.trainable_variables)
    return model


def arrays(model: Any) -> list[Any]:
    """Weights and slots of *model* that have units, in order."""
    return [one for one in (*model.variables, *model.optimizer.variables) if len(one.shape)]


def open_shapes(model: Any) -> Any:
    """*model*, each of its arrays in a variable of the same rank whose axes have any length."""
    import tensorflow as tf

    for one in arrays(model):
        old = one.value
        shape = tf.TensorShape([None] * len(one.shape))
        one._value = tf.Variable(old, trainable=old.trainable, shape=shape, dtype=one.dtype)
    optimizer = model.optimizer
    places = {optimizer._var_key(one): n for n, one in enumerate(model.trainable_variables)}
    optimizer._trainable_variables_indices = places
    return model


class TracedStep:
    """The training step of a model on one batch, with the time that its beginning took."""

    def __init__(self, model: Any, batch: tuple[Any, Any]) -> None:
        import tensorflow as tf

        started = time.perf_counter()
        signature = [tf.TensorSpec((None, *part.shape[1:]), part.dtype) for part in batch]
        function = tf.function(lambda x, y: model.train_step((x, y)))
        self._made, self._batch = function.get_concrete_function(*signature), batch
        self._made(*batch)
        self.begin_s = time.perf_counter() - started

    def __call__(self) -> float:
        """Milliseconds of a step, on average of some."""
        started = time.perf_counter()
        for _ in range(STEPS):
            self._made(*self._batch)
        return (time.perf_counter() - started) * 1e3 / STEPS


def alternate(steps: list[Callable[[], float]], rounds: int) -> list[float]:
    """Median milliseconds of each of *steps*, which take turns."""
    times = [[step() for step in steps] for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*times, strict=True)]


def compare(kind: str, width: int, rounds: int) -> dict[str, Any]:
    """Figures of one network."""
    import numpy as np
    import tensorflow as tf

    rng = np.random.default_rng(1)
    shape = (512, 28) if kind == "dense" else (64, 32, 32, 3)
    x = tf.constant(rng.normal(size=shape), tf.float32)
    y = tf.constant(rng.integers(0, 2, (len(x), 1)), tf.float32)
    fixed, opened = network(kind, width), open_shapes(network(kind, width))
    kept = TracedStep(opened, (x, y))
    whole = alternate([TracedStep(fixed, (x, y)), kept], rounds)
    pairs = zip(arrays(fixed), arrays(opened), strict=True)
    difference = max(float(np.abs(one.numpy() - two.numpy()).max()) for one, two in pairs)

    small = network(kind, width // 2)
    for one, two in zip(arrays(opened), arrays(small), strict=True):
        one._value.assign(two.value)
    anew = TracedStep(small, (x, y))
    cut = alternate([anew, kept], rounds)
    return {
        "network": f"{kind} {width}",
        "fixed_ms": whole[0],
        "ratio": whole[1] / whole[0],
        "cut_ms": cut[0],
        "ratio_cut": cut[1] / cut[0],
        "tracing_s": anew.begin_s,
        "largest_difference": difference,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not arguments.here:
        rounds = str(arguments.rounds)
        turns.run_on_first_core("ci.benchmarks.open_shapes", "--here", "--rounds", rounds)
        return
    for kind, width in CASES:
        print(json.dumps(compare(kind, width, arguments.rounds)), flush=True)


if __name__ == "__main__":
    main()
