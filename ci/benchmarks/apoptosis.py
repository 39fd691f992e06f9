"""Size, speed and quality with and without apoptosis: JSON lines, and at last a table.

    python -m ci.benchmarks.apoptosis higgs --data higgs.h5 [--ranks 1] [--seeds 3] [--epochs 20]
    python -m ci.benchmarks.apoptosis images --data mnist.h5 -- --model cnn
    python -m ci.benchmarks.apoptosis lstm --data tinyshakespeare.h5 --criteria gram,magnitude

Trains one of the examples with and without apoptosis from the same seeds, alternating, each
in a process (or ``matex run``) of its own; events count in the total time. ``cpu_s`` is that time
as the processor counted it for rank 0, which other work on the machine hardly changes. The held-out
metric is that of the last epoch, for the twin without apoptosis that of its best epoch too.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from ci.jobs import ROOT, environment

SCRIPTS = {
    "higgs": "06_apoptosis_higgs.py",
    "images": "07_apoptosis_images.py",
    "lstm": "08_apoptosis_lstm.py",
}
COLUMNS = (
    *("case", "parameters", "fewer", "last", "best", "loss"),
    *("epoch_s", "total_s", "faster", "cpu_s"),
)


def train(script: str, options: list[str], *, ranks: int) -> dict[str, Any]:
    """One training; what it wrote."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        result = Path(folder) / "result.json"
        command = [sys.executable]
        if ranks > 1:
            command += ["-m", "matex", "run", "-n", str(ranks), "--report", f"{folder}/report"]
        command += [str(ROOT / "examples" / script), *options, "--json", str(result)]
        done = subprocess.run(
            command,
            env=environment(TF_CPP_MIN_LOG_LEVEL="2"),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode or not result.exists():
            raise SystemExit(f"{' '.join(command)} failed\n{done.stdout}\n{done.stderr}")
        content: dict[str, Any] = json.loads(result.read_text())
        return content


def summary(case: str, runs: list[dict[str, Any]], twin_s: float | None) -> dict[str, Any]:
    """Medians over seeds of one case."""

    def median(values: list[float]) -> float:
        return float(statistics.median(values))

    total = median([run["seconds"] for run in runs])
    return {
        "case": case,
        "parameters": round(median([run["parameters"] for run in runs])),
        "fewer": median([run["parameters_before"] / run["parameters"] for run in runs]),
        "last": median([run["held_out"][-1] for run in runs]),
        "best": median([max(run["held_out"]) for run in runs]),
        "loss": median([run["val_loss"][-1] for run in runs]),
        "best_loss": median([min(run["val_loss"]) for run in runs]),
        "flops": median([run["events"][-1]["flops"] for run in runs if run["events"]] or [0.0]),
        "epoch_s": median([run["epoch_s"][-1] for run in runs]),
        "events_s": median([sum(e["seconds"] for e in run["events"]) for run in runs]),
        "total_s": total,
        "faster": 1.0 if twin_s is None else twin_s / total,
        "cpu_s": median([run["cpu_seconds"] for run in runs]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("problem", choices=SCRIPTS)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, help="default: the example's own")
    parser.add_argument("--mode", default="adaptive")
    parser.add_argument("--criteria", default="gram", help="some, with commas between")
    parser.add_argument("more", nargs="*", help="options of the example, after --")
    arguments = parser.parse_intermixed_args()
    common = list(arguments.more)
    if arguments.data is not None:
        common += ["--data", str(arguments.data.absolute())]
    if arguments.epochs is not None:
        common += ["--epochs", str(arguments.epochs)]
    cases = {"none": ["--mode", "none"]}
    for criterion in arguments.criteria.split(","):
        cases[criterion] = ["--mode", arguments.mode, "--criterion", criterion]
    runs: dict[str, list[dict[str, Any]]] = {case: [] for case in cases}
    for seed in range(1, arguments.seeds + 1):
        for case, options in cases.items():
            run = train(
                SCRIPTS[arguments.problem],
                [*common, *options, "--seed", str(seed)],
                ranks=arguments.ranks,
            )
            runs[case].append(run)
            print(json.dumps({"case": case, **run}), flush=True)
    twin = summary("none", runs["none"], None)
    rows = [twin, *(summary(case, runs[case], twin["total_s"]) for case in runs if case != "none")]
    for row in rows:
        print(json.dumps(row), flush=True)
    print(*(f"{name:>11}" for name in COLUMNS))
    for row in rows:
        print(
            *(f"{row[name]:>11.4g}" if name != "case" else f"{row[name]:>11}" for name in COLUMNS)
        )


if __name__ == "__main__":
    main()
