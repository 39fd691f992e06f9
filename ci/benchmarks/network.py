"""The time of a step between emulated hosts: one JSON object a line and case.

    python -m ci.benchmarks.network [--hosts 2] [--ranks 1] [--rate 100 1000] [--delay 1]
        [--with "" "--compression bf16"] [--rounds 3] [--steps 30] [--alone] [--against DIR]
        [--horovod DIR]

A CNN of 1.2 million parameters (4.8 MB) trains on ``--ranks`` ranks a host, 64 rows each, over a
network of ``--rate`` megabits a second and ``--delay`` milliseconds; ``--with`` are options of
``matex run``, a case each. All cases take turns: a launch each a round. ``step_ms`` and
``exchange_ms`` are medians over rounds of the medians over a launch's steps; the latter has the
waiting for a rank that still computes. With ``--alone`` a matrix of as many numbers is trained in
place of the CNN, a row each, so that there is next to nothing to wait for. ``model_ms`` is one
model one way at that rate, ``models_out`` the bytes that left a host in a step, in models. Emulated
hosts share the cores of this one, so each rank is given its part of them as threads. With
``--against DIR`` another checkout, which has an environment of its own, runs each case, too. With
``--horovod DIR``, an environment that has Horovod with MPI and its TensorFlow, the same model
trains under that once a rate (``ci/benchmarks/horovod_step.py``); its exchange is not timed.

Needs root and the command ip.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from ci.benchmarks import models
from ci.jobs import ROOT, environment, mpiexec
from ci.network.emulated import Emulated, emulated, end_tidily
from ci.network.switch import Link

_LIMIT_S = 600
_HOROVOD = "Horovod"  # in place of options of matex run


class _Case(NamedTuple):
    rate: float
    options: str
    checkout: Path
    """A checkout of matex, or the environment of Horovod."""
    alone: bool


class _Found(NamedTuple):
    step_ms: float
    exchange_ms: float
    bytes_out: float
    """Bytes that left a host in a step, the mean over hosts."""


def work(name: str, ranks: int, steps: int) -> None:
    """Train the model of this *name* on each rank of a launch."""
    model, x, y, batch = models.build(name)
    model.fit(x[: batch * ranks], y[: batch * ranks], batch_size=batch * ranks, epochs=2, verbose=0)
    rows = [n % len(x) for n in range(batch * ranks * steps)]
    model.fit(x[rows], y[rows], batch_size=batch * ranks, epochs=1, verbose=0, shuffle=False)


def launch(case: _Case, network: Emulated, ranks: int, steps: int) -> _Found:
    """One run over *network*, with *ranks* on each of its hosts.

    Raises:
        SystemExit: it failed.
    """
    before = sum(network.switch.sent[1:])
    launched = launch_horovod if case.options == _HOROVOD else launch_matex
    step_s, exchange_s, made = launched(case, network, ranks, steps)
    sent = sum(network.switch.sent[1:]) - before
    return _Found(1e3 * step_s, 1e3 * exchange_s, sent / len(network.addresses) / made)


def launch_matex(
    case: _Case, network: Emulated, ranks: int, steps: int
) -> tuple[float, float, int]:
    """Seconds of a step and of its exchange, and the number of steps."""
    total = ranks * len(network.addresses)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        report = Path(folder) / "report"
        python = case.checkout / ".venv" / "bin" / "python"
        command = [
            *(str(python), "-m", "matex", "run", "-n", str(total)),
            *("--hosts", network.hosts(ranks), "--report", str(report)),
            *("--threads", str(_threads(total))),
            *shlex.split(case.options),
            *(str(Path(__file__).resolve()), "--work", str(total), "--steps", str(steps)),
            *(("--alone",) if case.alone else ()),
        ]
        done(command, network, case.checkout)
        summary: dict[str, Any] = json.loads((report / "summary.json").read_text())
    return summary["step_s"], summary["exchange_s"], summary["steps"]


def _threads(ranks: int) -> int:
    """Threads of each of all *ranks*, whose hosts share the cores of this one."""
    return max(1, len(os.sched_getaffinity(0)) // ranks)


def launch_horovod(
    case: _Case, network: Emulated, ranks: int, steps: int
) -> tuple[float, float, int]:
    """Seconds of a step of Horovod, of its exchange (unknown: NaN), and the number of steps."""
    total = ranks * len(network.addresses)
    settings = {
        # Its best: it neither waits long for more gradients nor spins.
        "HOROVOD_CYCLE_TIME": "0.1",
        "OMPI_MCA_mpi_yield_when_idle": "1",
        "OMPI_MCA_pml": "ob1",
        **network.environment,
    }
    command = [
        *(mpiexec(), "-n", str(total), "--host", network.hosts(ranks), "--bind-to", "none"),
        *(("--allow-run-as-root",) if os.geteuid() == 0 else ()),
        *(word for name in ("HOROVOD_CYCLE_TIME", "PYTHONPATH") for word in ("-x", name)),
        *(str(case.checkout / "bin" / "python"), "-m", "ci.benchmarks.horovod_step"),
        str(steps),
    ]
    found = json.loads(done(command, network, ROOT, **settings).splitlines()[-1])
    return found["step_s"], math.nan, found["steps"]


def done(command: list[str], network: Emulated, checkout: Path, **variables: str) -> str:
    """Output of *command*, which ran on the head of *network*, with the modules of *checkout*.

    Raises:
        SystemExit: it failed.
    """
    words = [*network.head, *command]
    ended = subprocess.run(
        words,
        cwd=checkout,  # where a module is looked for, before PYTHONPATH
        env={**environment(PYTHONPATH=str(checkout)), **network.environment, **variables},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_LIMIT_S, check=False,
    )  # fmt: skip
    if ended.returncode:
        raise SystemExit(f"{shlex.join(words)}\n{ended.stdout}\n{ended.stderr}")
    return ended.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--ranks", type=int, default=1, help="of a host")
    parser.add_argument("--rate", type=float, nargs="+", default=[100.0, 1000.0])
    parser.add_argument("--delay", type=float, default=1.0, help="milliseconds")
    parser.add_argument("--with", dest="options", nargs="+", default=[""], help="of matex run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--alone", action="store_true", help="exchanges, with little computing")
    parser.add_argument("--against", type=Path, metavar="DIR", help="another checkout, installed")
    parser.add_argument("--horovod", type=Path, metavar="DIR", help="an environment with Horovod")
    parser.add_argument("--work", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work("matrix" if arguments.alone else "cnn", arguments.work, arguments.steps)
        return
    end_tidily()
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
    checkouts = [ROOT, *([arguments.against.resolve()] if arguments.against else [])]
    cases = [
        _Case(rate, options, checkout, arguments.alone)
        for rate in arguments.rate
        for options in arguments.options
        for checkout in checkouts
    ]
    if arguments.horovod:
        peer = arguments.horovod.resolve()
        cases += [_Case(rate, _HOROVOD, peer, False) for rate in arguments.rate]
    found: dict[_Case, list[_Found]] = {case: [] for case in cases}
    for number in range(arguments.rounds):
        for case in cases:
            link = Link(rate_bit_s=1e6 * case.rate, delay_s=1e-3 * arguments.delay)
            with emulated(arguments.hosts, link) as network:
                found[case].append(launch(case, network, arguments.ranks, arguments.steps))
            print(f"round {number + 1}: {case.rate:g} {found[case][-1]}", file=sys.stderr)
    model_bytes = 4 * 1_199_882
    for case, launches in found.items():
        step_ms, exchange_ms, out = (
            statistics.median(part) for part in zip(*launches, strict=True)
        )
        print(
            json.dumps(
                {
                    "hosts": arguments.hosts,
                    "ranks": arguments.ranks,
                    "mbit_s": case.rate,
                    "options": case.options,
                    "alone": case.alone,
                    "checkout": "this" if case.checkout == ROOT else "other",
                    "step_ms": round(step_ms, 1),
                    "exchange_ms": None if math.isnan(exchange_ms) else round(exchange_ms, 1),
                    "model_ms": round(8e-3 * model_bytes / case.rate, 1),
                    "models_out": round(out / model_bytes, 2),
                }
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
