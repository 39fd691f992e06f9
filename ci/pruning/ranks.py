"""Let random graphs shrink in fits on several ranks: all ranks must keep one model that works.

    python -m ci.pruning.ranks [--count 60] [--seed 0] [--ranks 2] [--kill]

One launch of ``matex run`` trains the graphs of :mod:`ci.pruning.graphs` one after the other, each
with an apoptosis event that takes .3 or .6 of the parameters where the graph allows. After each fit
all ranks must hold the same weights to the last bit, the saved file must compute the same, and the
model must train on. With ``--kill`` the last rank dies in the middle of the launch. A line for each
graph that fails; exit status 1 then.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ci.jobs import environment

_RATIOS = (0.3, 0.6)
_BATCH, _EPOCHS = 20, 3


def train(count: int, seed: int, folder: Path) -> None:
    """Train all graphs on this rank, and print a line of JSON for each."""
    import keras
    import numpy as np

    import matex
    from ci.pruning.graphs import case_of, differs, finite, outputs

    for number in range(count):
        keras.backend.clear_session()
        case = case_of(number, seed)
        model, x = case.build()
        y = outputs(model, x)
        target = y if len(y) > 1 else y[0]
        model.compile(keras.optimizers.Adam(1e-4), "mse")
        before = model.count_params()
        shrink = matex.Apoptosis(
            "aggressive", first_epoch=1, last_epoch=1, every=1, delta=None, verbose=0,
            pruning_ratio=_RATIOS[number % len(_RATIOS)],
        )  # fmt: skip
        model.fit(x, target, batch_size=_BATCH, epochs=_EPOCHS, callbacks=[shrink], verbose=0)
        found = outputs(model, x)
        problems = [] if all(map(finite, found)) else ["outputs are not finite"]
        saved = folder / f"{number}.keras"
        model.save(saved)
        if differs(outputs(keras.models.load_model(saved), x), found):
            problems.append("the file computes something else")
        model.fit(x, target, batch_size=_BATCH, epochs=1, verbose=0)
        weights = hashlib.sha256(b"".join(weight.numpy().tobytes() for weight in model.weights))
        digests = matex.allgather(np.frombuffer(weights.digest(), np.uint8)[None])
        if len(np.unique(digests, axis=0)) != 1:
            problems.append("ranks hold different weights")
        # Problems of any rank count.
        failed = float(matex.allreduce(np.float64(bool(problems)), op="sum"))
        if failed and not problems:
            problems.append("a problem on another rank")
        line = {
            "number": number,
            "case": list(case),
            "gone": 1 - model.count_params() / before,
            "ranks": len(digests),
            "problems": problems,
        }
        print("graph", json.dumps(line), flush=True)


def launch(options: argparse.Namespace, folder: Path) -> int:
    """Start the ranks, judge what they printed, and return the exit status.

    Ranks that hang end themselves, so nothing here limits the time.
    """
    command = [sys.executable, "-m", "matex", "run", "-n", str(options.ranks)]
    command += ["--report", str(folder / "report")]
    if options.kill:  # two fits a graph: _EPOCHS and one epoch of two or three steps
        step = options.count * (_EPOCHS + 1)
        command += ["--inject", f"kill:rank={options.ranks - 1},step={step}"]
    command += [__file__, "--rank", "--count", str(options.count), "--seed", str(options.seed)]
    command += ["--folder", str(folder)]
    began = time.monotonic()
    run = subprocess.run(
        command, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    words = (line.partition("graph ") for line in run.stdout.splitlines())
    graphs = [json.loads(rest) for start, found, rest in words if found and not start]
    wrong = [graph for graph in graphs if graph["problems"]]
    for graph in wrong:
        print(json.dumps(graph))
    missing = options.count - len(graphs)
    if run.returncode or missing:
        print(*run.stderr.splitlines()[-20:], sep="\n")
    gone = sum(graph["gone"] for graph in graphs) / max(1, len(graphs))
    print(
        f"{len(graphs)} of {options.count} graphs on {options.ranks} ranks, "
        f"{graphs[-1]['ranks'] if graphs else 0} at the end: {len(wrong)} wrong; {gone:.3f} of the "
        f"parameters gone on average; status {run.returncode}; {time.monotonic() - began:.0f} s"
    )
    return int(bool(wrong or missing or run.returncode))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--kill", action="store_true", help="the last rank dies in the middle")
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        train(options.count, options.seed, options.folder)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        return launch(options, Path(folder))


if __name__ == "__main__":
    sys.exit(main())
