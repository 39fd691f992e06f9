"""ResNet50 or a small ViT, pruned while it trains on files in ImageNet's layout: JSON lines.

    python -m ci.benchmarks.imagenet --model resnet50 [--classes 1000] [--pictures 20000]
                                     [--side 64] [--batch 64] [--epochs 5] [--folder DIR]
                                     [--report DIR] [-- OPTIONS OF THE EXAMPLE]

It makes a folder of JPEGs of 400 x 300 (or takes *DIR*, where an earlier one made it), and gives

* ``plain``: pictures a second of plain Keras with plain tf.data (read_file, decode_jpeg, resize) in
  one process on one core with one thread, in batches of half the size, over 40 steps behind four.
* ``pruned``: of ``examples/07_apoptosis_images.py`` on two ranks with a core each, of which one is
  killed in the middle of the second epoch and replaced: parameters, FLOPs of a picture and seconds
  for each event and for the epoch before it, seconds and held-out accuracy of each epoch, pictures
  a second of the first epoch without its validation, megabytes of each rank's memory, the most in
  each third of the training, and the ranks that were lost, with the causes.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import math
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ci.benchmarks import turns
from ci.benchmarks.one_run import matex_run
from ci.jobs import ROOT

BEFORE, STEPS = 4, 40
HELD_OUT = 10  # the example tests on one picture of so many
MODELS = ("resnet50", "vit")


def plain(folder: Path, model: str, side: int, batch: int) -> dict[str, Any]:
    """Pictures a second of plain Keras on its own pipeline."""
    import tensorflow as tf

    sys.path.insert(0, str(ROOT / "examples"))
    networks: Any = importlib.import_module("course.networks")
    files = sorted(folder.glob("train/*/*"))
    names = sorted({path.parent.name for path in files})
    labels = [names.index(path.parent.name) for path in files]

    def picture(path: Any, label: Any) -> Any:
        image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
        return tf.image.resize(image, (side, side)), label

    dataset = tf.data.Dataset.from_tensor_slices(([*map(str, files)], labels))
    dataset = dataset.shuffle(len(files), seed=1).repeat().map(picture).batch(batch).prefetch(2)
    network = getattr(networks, model)((side, side, 3), len(names))
    network.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    network.fit(dataset, steps_per_epoch=BEFORE, verbose=0)
    started = time.perf_counter()
    network.fit(dataset, steps_per_epoch=STEPS, verbose=0)
    seconds = time.perf_counter() - started
    return {"measure": "plain", "model": model, "pictures_per_s": round(STEPS * batch / seconds, 1)}


def pruned(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """The figures of a run on two ranks."""
    train = arguments.pictures - len(range(HELD_OUT - 1, arguments.pictures, HELD_OUT))
    steps = math.ceil(train / arguments.batch)
    with tempfile.TemporaryDirectory(prefix="bench-") as aside:
        written = Path(aside) / "result.json"
        summary, events = matex_run(
            "-n", "2", "--respawn", "--inject", f"kill:rank=1,step={steps * 3 // 2}",
            str(ROOT / "examples" / "07_apoptosis_images.py"),
            "--data", str(folder / "train"), "--model", arguments.model,
            "--side", str(arguments.side), "--batch-size", str(arguments.batch),
            "--epochs", str(arguments.epochs), "--json", str(written), *arguments.more,
            report=arguments.report,
        )  # fmt: skip
        result = json.loads(written.read_text())
    timing = [event for event in events if event["event"] == "timing"]
    first = [event for event in timing if event["step"] <= steps]
    step_s = sum(e["step_s"] * e["steps"] for e in first) / sum(e["steps"] for e in first)
    return {
        "measure": "pruned",
        "model": arguments.model,
        "pictures": arguments.pictures,
        "side": arguments.side,
        "batch": arguments.batch,
        "pictures_per_s": round(arguments.batch / step_s, 1),
        "parameters": [result["parameters_before"], result["parameters"]],
        "epoch_s": [round(seconds, 1) for seconds in result["epoch_s"]],
        "held_out": [round(value, 4) for value in result["held_out"]],
        "events": [_event(e) for e in events if e["event"] == "apoptosis" and e["rank"] == 0],
        "memory_mb": _memory(timing),
        "ranks_lost": summary["ranks_lost"],
        "samples_lost": summary["samples_lost"],
    }


def _event(event: dict[str, Any]) -> dict[str, Any]:
    sizes = ("parameters_before", "parameters", "flops_before", "flops")
    rest = ("epoch", "epoch_s", "seconds", "loss_before", "loss_after")
    return {name: event[name] for name in (*rest, *sizes)}


def _memory(timing: list[dict[str, Any]]) -> dict[str, list[float]]:
    """Most megabytes of each rank in each third of its time."""
    found = {}
    for rank in sorted({event["rank"] for event in timing}):
        own = [event["memory"] / 1e6 for event in timing if event["rank"] == rank]
        thirds = [own[len(own) * third // 3 : len(own) * (third + 1) // 3] for third in range(3)]
        found[str(rank)] = [round(max(part), 1) for part in thirds if part]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", choices=MODELS, default=MODELS[0])
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--pictures", type=int, default=20000)
    parser.add_argument("--side", type=int, default=64)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument(
        "--folder", type=Path, help="where the pictures are, or are to be, and stay"
    )
    parser.add_argument("--report", type=Path, help="where the report of the run stays")
    parser.add_argument("--as", dest="role", choices=("parent", "plain"), default="parent")
    parser.add_argument("more", nargs="*", help="options of the example, after --")
    arguments = parser.parse_args()
    if arguments.role == "plain":
        measured = plain(arguments.folder, arguments.model, arguments.side, arguments.batch)
        print(json.dumps(measured), flush=True)
        return
    with contextlib.ExitStack() as stack:
        folder = arguments.folder
        if folder is None:
            aside = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-"))
            folder = Path(aside) / "pictures"
        folder = folder.resolve()
        if not (folder / "train").exists():
            made = ("--classes", str(arguments.classes), "--pictures", str(arguments.pictures))
            turns.run_on_first_core(
                "ci.benchmarks.images", "--as", "make", *made, "--folder", str(folder)
            )
        shape = ("--side", str(arguments.side), "--batch", str(arguments.batch // 2))
        own = ("--model", arguments.model, *shape, "--folder", str(folder))
        turns.run_on_first_core("ci.benchmarks.imagenet", "--as", "plain", *own)
        print(json.dumps(pruned(folder, arguments)), flush=True)


if __name__ == "__main__":
    main()
