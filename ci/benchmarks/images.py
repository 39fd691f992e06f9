"""Reading of a folder in ImageNet's layout: speed, bytes read, memory. One JSON object a line.

    python -m ci.benchmarks.images [--classes 100] [--pictures 2000] [--rounds 7] [--ranks 2]
                                   [--layout folders|tar] [--apoptosis] [--folder DIR]

It makes a folder of JPEGs of 400 x 300 (or takes *DIR*, where an earlier one made it), and gives

* ``speed``: pictures a second, on one core, of plain tf.data (read_file, decode_jpeg, resize to
  224 x 224), of ``matex.data.as_dataset``, of the same with augmentation, and of rows by number in
  batches, as fit takes them. They take turns in one process, and ``*_ratio`` is the median over the
  rounds of what each is to plain tf.data in the same round; ``cpu_ratio`` is the same of the time
  that the core worked, which other programs on it disturb less.
* ``fit``: of three epochs of ``model.fit`` on ranks that stream all pictures, ``read_ratio``, the
  bytes that all ranks read during the epochs (rchar of /proc/self/io) by the bytes of three times
  all files, and the resident memory of each rank behind each epoch, ``rss_mb``, and the most until
  then, ``peak_mb``; ``growth`` and ``peak_growth`` are the largest of the later ones by that behind
  the first. What the allocator keeps of a step makes the one go up and down, the other not.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import resource
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ci.benchmarks import turns
from ci.jobs import environment

HEIGHT, WIDTH = 300, 400
SIZE = (224, 224)
BATCH = 32
EPOCHS = 3
SHARD = 500  # pictures of a tar


def make(root: Path, classes: int, pictures: int, layout: str) -> None:
    """Write *pictures* JPEGs, cheap but all different; their colours tell their class."""
    import tensorflow as tf

    generator = np.random.default_rng(0)
    noise = generator.normal(0, 12, (2 * HEIGHT, 2 * WIDTH, 3)).astype(np.float32)
    colours = generator.uniform(0, 256, (classes, 9, 12, 3)).astype(np.float32)
    tar, train = None, root / "train"
    train.mkdir(parents=True)
    for number in range(pictures):
        label = number % classes
        coarse = 0.7 * colours[label] + 0.3 * generator.uniform(0, 256, (9, 12, 3))
        top, left = generator.integers(0, (HEIGHT, WIDTH))
        picture = tf.image.resize(coarse.astype(np.float32), (HEIGHT, WIDTH))
        picture += noise[top : top + HEIGHT, left : left + WIDTH]
        picture = tf.cast(tf.clip_by_value(picture, 0, 255), tf.uint8)
        content = tf.io.encode_jpeg(picture, quality=90).numpy()
        if layout == "folders":
            folder = train / f"n{label:08d}"
            folder.mkdir(exist_ok=True)
            (folder / f"n{label:08d}_{number}.JPEG").write_bytes(content)
            continue
        if number % SHARD == 0:
            if tar is not None:
                tar.close()
            tar = tarfile.open(train / f"train-{number // SHARD:06d}.tar", "w")  # noqa: SIM115
        assert tar is not None
        for end, part in (("jpg", content), ("cls", b"%d" % label)):
            member = tarfile.TarInfo(f"{number:08d}.{end}")
            member.size = len(part)
            tar.addfile(member, io.BytesIO(part))
    if tar is not None:
        tar.close()


def speed(root: Path, rounds: int) -> dict[str, Any]:
    """Let the ways to read take turns; the first round traces, and does not count."""
    import tensorflow as tf

    from matex import data

    opened = data.open(root / "train", size=SIZE)
    files = sorted(str(path) for path in root.glob("train/*/*"))
    count = len(opened.y)

    def picture(path: Any) -> Any:
        image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
        return tf.image.resize(image, SIZE)

    plain = tf.data.Dataset.from_tensor_slices(files).map(picture, tf.data.AUTOTUNE)
    x, y = opened.x, opened.y
    batched = {
        "plain": plain.batch(BATCH).prefetch(2),
        "as_dataset": data.as_dataset(x, y, batch_size=BATCH),
        "augmented": data.as_dataset(x, y, batch_size=BATCH, shuffle=1, crop=0.35, flip=True),
    }

    def passing(dataset: Any) -> Callable[[], None]:
        def go() -> None:
            for _ in dataset:
                pass

        return go

    def by_number() -> None:
        order = np.random.default_rng(0).permutation(count)
        for lo in range(0, count, BATCH):
            opened.x.rows(order[lo : lo + BATCH])

    ways = {name: passing(dataset) for name, dataset in batched.items()} | {"rows": by_number}
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name in np.random.default_rng(number).permutation([*ways]).tolist():
            wall, cpu = time.perf_counter(), time.process_time()
            ways[name]()
            seconds[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    result: dict[str, Any] = {"measure": "speed", "pictures": count}
    for name, took in seconds.items():
        result[f"{name}_per_s"] = round(count / statistics.median(s for s, _ in took[1:]), 1)
    for name in [*ways][1:]:
        pairs = list(zip(seconds["plain"][1:], seconds[name][1:], strict=True))
        for kind, at in (("ratio", 0), ("cpu_ratio", 1)):
            ratio = statistics.median(plain[at] / own[at] for plain, own in pairs)
            result[f"{name}_{kind}"] = round(ratio, 3)
    return result


def fit(root: Path, apoptosis: bool) -> None:
    """Train a small network on all pictures; each rank writes what it read and holds."""
    import keras
    import psutil

    import matex
    from matex import data

    layers = keras.layers
    opened = data.open(root / "train", size=SIZE)
    x, y = opened.x, opened.y
    classes = int(y[:].max()) + 1
    model = keras.Sequential(
        [
            keras.Input((*SIZE, 3)),
            layers.Rescaling(1 / 255),
            layers.Conv2D(8, 7, strides=4, activation="relu"),
            layers.Conv2D(16, 3, strides=2, activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(classes),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss)
    train = data.as_dataset(x, y, batch_size=2 * BATCH, shuffle=1, crop=0.35, flip=True)
    measured: dict[str, list[float]] = {"read": [], "rss_mb": [], "peak_mb": []}

    def read() -> int:
        return int(Path("/proc/self/io").read_text().split()[1])

    class Measure(keras.callbacks.Callback):  # type: ignore[misc]
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.before = read()

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            measured["read"].append(read() - self.before)
            measured["rss_mb"].append(round(psutil.Process().memory_info().rss / 1e6, 1))
            peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            measured["peak_mb"].append(round(peak_kib * 1024 / 1e6, 1))

    callbacks: list[Any] = [Measure()]
    if apoptosis:
        callbacks.append(matex.Apoptosis(data=(x, y), validation_data=(x, y), samples=256))
    model.fit(train, epochs=EPOCHS, verbose=0, shuffle=False, callbacks=callbacks)
    rank = os.environ.get("OMPI_COMM_WORLD_RANK", "0")
    (root / f"measured-{rank}.json").write_text(json.dumps(measured))


def fit_on_ranks(root: Path, ranks: int, apoptosis: bool) -> dict[str, Any]:
    """The results of :func:`fit` on *ranks* ranks."""
    for old in root.glob("measured-*.json"):
        old.unlink()
    with tempfile.TemporaryDirectory(prefix="bench-") as report:
        command = [sys.executable, "-m", "matex", "run", "-n", str(ranks), "--report", report]
        command += [str(Path(__file__).resolve()), "--as", "fit", "--folder", str(root)]
        command += ["--apoptosis"] if apoptosis else []
        done = subprocess.run(
            command, env=environment(), check=False, capture_output=True, text=True, timeout=3600
        )
    found = [json.loads(path.read_text()) for path in sorted(root.glob("measured-*.json"))]
    if done.returncode or len(found) != ranks:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-2000:]}")
    stored = sum(path.stat().st_size for path in root.glob("train/**/*") if path.is_file())

    def growth(of: str) -> float:
        series: list[list[float]] = [one[of] for one in found]
        return round(max(max(later) / first for first, *later in series), 4)

    return {
        "measure": "fit",
        "ranks": ranks,
        "apoptosis": apoptosis,
        "file_mb": round(stored / 1e6, 1),
        "read_ratio": round(sum(sum(one["read"]) for one in found) / stored / EPOCHS, 4),
        "rss_mb": [one["rss_mb"] for one in found],
        "peak_mb": [one["peak_mb"] for one in found],
        "growth": growth("rss_mb"),
        "peak_growth": growth("peak_mb"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--pictures", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--layout", choices=("folders", "tar"), default="folders")
    parser.add_argument("--apoptosis", action="store_true", help="with apoptosis in the fit")
    parser.add_argument(
        "--folder", type=Path, help="where the pictures are, or are to be, and stay"
    )
    parser.add_argument("--as", dest="role", choices=("parent", "make", "speed", "fit"))
    arguments = parser.parse_args()
    if arguments.role == "make":
        make(arguments.folder, arguments.classes, arguments.pictures, arguments.layout)
    elif arguments.role == "speed":
        print(json.dumps(speed(arguments.folder, arguments.rounds)), flush=True)
    elif arguments.role == "fit":
        fit(arguments.folder, arguments.apoptosis)
    else:
        with tempfile.TemporaryDirectory(prefix="bench-") as aside:
            measure(arguments, (arguments.folder or Path(aside) / "pictures").resolve())


def measure(arguments: argparse.Namespace, root: Path) -> None:
    """Make the pictures, where there are none, and measure."""

    def child(role: str) -> None:
        words = ["ci.benchmarks.images", "--as", role, "--folder", str(root)]
        for name in ("classes", "pictures", "rounds", "layout"):
            words += [f"--{name}", str(getattr(arguments, name))]
        turns.run_on_first_core(*words)

    if not (root / "train").exists():
        child("make")
    if arguments.layout == "folders":  # plain tf.data reads no pictures out of tars
        child("speed")
    result = fit_on_ranks(root, arguments.ranks, arguments.apoptosis)
    print(json.dumps({"layout": arguments.layout, **result}), flush=True)


if __name__ == "__main__":
    main()
