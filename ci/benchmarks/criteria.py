"""Accuracy at equal ratio by every criterion, without training afterwards: JSON lines, and a table.

    python -m ci.benchmarks.criteria --data mnist.h5 [--seeds 1] [--ratios .5,.7,.9]

Trains the CNN of the examples on some of the digits, and prunes copies of it by the engine of
``matex prune``, which looks at half of 4096 rows of these and judges nothing. The accuracy is that
on the test digits, the median over seeds.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from ci.jobs import ROOT


def trained(data: Any, *, images: int, epochs: int, seed: int) -> Any:
    """The CNN after *epochs* on the first *images* digits."""
    import keras

    networks: Any = importlib.import_module("course.networks")
    keras.utils.set_random_seed(seed)
    model = networks.cnn((28, 28, 1), 10)
    model.compile(
        keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy", metrics=["accuracy"]
    )
    model.fit(
        data["x_train"][:images, ..., None],
        data["y_train"][:images],
        batch_size=128,
        epochs=epochs,
        verbose=0,
    )
    return model


def accuracy(model: Any, data: Any) -> float:
    """The share of the test digits that *model* takes for what they are."""
    given = {"batch_size": 1000, "verbose": 0}
    _, right = model.evaluate(data["x_test"][:][..., None], data["y_test"][:], **given)
    return float(right)


def copy_of(model: Any) -> Any:
    """A compiled copy of *model*."""
    import keras

    copy = keras.models.clone_model(model)
    copy.set_weights(model.get_weights())
    copy.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return copy


def pruned(
    model: Any, data: Any, criterion: str, ratio: float, *, images: int, samples: int
) -> dict[str, Any]:
    """The figures of a copy of *model* that was pruned."""
    from matex.apoptosis.one_shot import prune

    copy = copy_of(model)
    rows = data["x_train"][:images, ..., None], data["y_train"][:images]
    began = time.perf_counter()
    outcome = prune(copy, *rows, ratio=ratio, criterion=criterion, samples=samples)
    seconds = time.perf_counter() - began
    return {
        "criterion": criterion,
        "ratio": ratio,
        "gone": 1 - outcome.parameters[1] / outcome.parameters[0],
        "accuracy": accuracy(copy, data),
        "seconds": seconds,
        "units": {change.layer: change.units_to for change in outcome.changes},
    }


def main() -> None:
    """Print a line for each pruning, and the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="digits: mnist.h5")
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--samples", type=int, default=2048)
    parser.add_argument("--ratios", default=".5,.7,.9", help="some, with commas between")
    parser.add_argument("--criteria", help="some, with commas between; all by default")
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT / "examples"))
    import matex.data
    from matex.apoptosis.criteria.table import CRITERIA

    data = matex.data.open(arguments.data)
    criteria = arguments.criteria.split(",") if arguments.criteria else list(CRITERIA)
    ratios = [float(ratio) for ratio in arguments.ratios.split(",")]
    found: dict[tuple[float, str], list[float]] = {}
    whole = []
    for seed in range(1, arguments.seeds + 1):
        model = trained(data, images=arguments.images, epochs=arguments.epochs, seed=seed)
        whole.append(accuracy(model, data))
        print(json.dumps({"seed": seed, "accuracy": whole[-1]}), flush=True)
        for ratio in ratios:
            for criterion in criteria:
                given = {"images": arguments.images, "samples": arguments.samples}
                one = pruned(model, data, criterion, ratio, **given)
                found.setdefault((ratio, criterion), []).append(one["accuracy"])
                print(json.dumps({"seed": seed, **one}), flush=True)
    print(f"whole {statistics.median(whole):.4f}")
    print("gone", *(f"{criterion:>10}" for criterion in criteria))
    for ratio in ratios:
        medians = [statistics.median(found[ratio, criterion]) for criterion in criteria]
        print(f"{ratio:>4g}", *(f"{value:>10.4f}" for value in medians))


if __name__ == "__main__":
    main()
