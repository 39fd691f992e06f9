"""The time of a shared step: one JSON object a line and model.

    python -m ci.benchmarks.step [--ranks 2] [--rounds 12] [--model mlp|cnn|vector]...

On ranks that each have a core, alternating in one run, it times (a) the step
without any exchange, (b) a raw MPI_Allreduce of the same bytes, (c) the matex
step, (d) the same without watchdog, search for numbers that are not finite and
comparison of replicas ("bare"), (e) the step of (a) and then (b) ("raw"), and gives the medians
over all steps of the first rank: ``ratio = matex_ms / (single_ms + allreduce_ms)``;
``raw_ratio`` is the same of (e), which is what no exchange that waits for the gradients can
beat: ranks in step wait for each other, which (a) and (b) by themselves do not show; and
``over_raw = matex_ms / raw_ms``. ``guards_percent`` is what (c) has over (d), the comparisons
that a median does not see included. Memory is the resident set after training, beside that of
plain Keras training the same model alone.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

import ft
from ci.benchmarks.models import build
from ci.jobs import environment

MODELS = ("mlp", "cnn", "vector")
STEPS_A_BLOCK = {"mlp": 40, "cnn": 8, "vector": 6}
# Short steps get a graph of their size in the end: see matex/steps/graphs/hot_shape.py.
WARM_UP = {"mlp": 1100, "cnn": 0, "vector": 0}


def measure(name: str, rounds: int) -> None:
    """Time the steps on every rank; the leader prints."""
    import tensorflow as tf

    from matex import keras_hooks, session
    from matex.checkpointing import model_state
    from matex.data import Batches
    from matex.exchange import GraphExchange, Layout
    from matex.fitting.data_end import DataEnd
    from matex.fitting.epoch_iterator import EpochIterator
    from matex.fitting.epoch_parts import FitStart
    from matex.fitting.listeners import Cursor, FitListener
    from matex.fitting.replica_check import ReplicaCheck
    from matex.fitting.replicated_update import ReplicatedUpdate
    from matex.fitting.retracing import Retracing
    from matex.fitting.update_check import UpdateCheck
    from matex.fitting.whole_batches import WholeBatches
    from matex.partition.order import shuffled_anew
    from matex.records.step_report import StepReport, StepRequests
    from matex.sources.interface import RowSource
    from matex.steps.end_of_data import EndOfData
    from matex.steps.engine import StepEngine
    from matex.steps.traced_step import CompiledStep, trace_step

    assert session.current is not None
    run = session.current.run
    communicator = run.communicator
    ranks = communicator.world.size
    run.watchdog.stop()
    dog = ft.Watchdog(timeout_s=600.0, neighbours=lambda: communicator.world.neighbours)
    dog.start()
    checking_s = 0.0

    shared, x, y, batch = build(name)
    batches = Batches(x, y)
    keras_hooks.build(shared, keras_hooks.as_data(batches.signature))
    model_state.broadcast(communicator, shared)
    replicas = ReplicaCheck(run, shared, every=None)
    guarded = True

    class Guards(FitListener):
        def step_done(self, report: StepReport, cursor: Cursor) -> None:
            nonlocal checking_s
            run.steps.step_done(report, model=shared)
            if guarded:
                started = time.perf_counter()
                replicas.step_done(report, cursor._replace(epoch_samples=None))
                checking_s += time.perf_counter() - started

    class Services:
        """The services of the run, with the watch only while guards are on."""

        def __init__(self) -> None:
            self.communicator = communicator
            self.faults = run.steps.faults
            self.nonfinite = run.steps.nonfinite

        virtual_workers = 0

        @property
        def step(self) -> int:
            return run.steps.step

        def make_exchange(self, layout: Layout, check_finite: bool) -> GraphExchange:
            return run.steps.make_exchange(layout, check_finite)

        def requests(self) -> StepRequests:
            return StepRequests()

        def around_step(self) -> AbstractContextManager[None]:
            return dog.working(timeout_s=60.0) if guarded else nullcontext()

    class FullRate:
        def rate_factor(self, epochs_done: float) -> float:
            return 1.0

    visits = shuffled_anew(batches.samples, seed=1)
    source = RowSource(batches, batch_size=batch * ranks, row_order=visits, order="anew")
    compiled = CompiledStep(trace_step(shared, source))
    engine = StepEngine(Services(), shared, source, compiled)
    end = EndOfData(shared, source, shared.train_step, compiled.step.python.as_noted)
    updates = UpdateCheck(shared, engine, None)
    training = EpochIterator(
        engine,
        shared,
        source,
        start=FitStart(0),
        rate=FullRate(),
        whole=WholeBatches(run, shared, ReplicatedUpdate(run), number=0),
        listeners=[
            Retracing(run.communicator, engine, end),
            updates,
            DataEnd(end, updates),
            Guards(),
        ],
    )
    original = shared.make_train_function()  # for batches that cannot be cut: not these
    iterator = iter(training)

    def matex_step() -> None:
        nonlocal iterator
        if next(iterator, None) is None:
            iterator = iter(training)
            next(iterator)
        training.run(original)

    def guard(on: bool) -> None:
        nonlocal guarded
        guarded = on
        exchange = training.engine.compiled.exchange
        if exchange is not None:
            exchange.check_finite = on

    model, x, y, batch = build(name)
    batches = Batches(x, y)
    keras_hooks.build(model, keras_hooks.as_data(batches.signature))

    def train_alone(data: Any) -> Any:
        with keras_hooks.updating():
            return model.train_step(data)

    alone = tf.function(train_alone, input_signature=(batches.signature,), autograph=False)
    rows = np.random.default_rng(communicator.world.rank)

    def single_step() -> None:
        alone(batches.rows(rows.choice(len(x), batch, replace=False)))

    size = model.count_params()
    send, receive = np.ones(size, np.float32), np.empty(size, np.float32)

    def allreduce() -> None:
        communicator.handle.Allreduce(send, receive)  # one raw call, as MPI's users make it

    def raw_step() -> None:
        single_step()
        allreduce()

    kinds: dict[str, Callable[[], None]] = {
        "single": single_step,
        "allreduce": allreduce,
        "matex": matex_step,
        "bare": matex_step,
        "raw": raw_step,
    }
    durations: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(WARM_UP[name]):
        matex_step()
    for number in range(rounds + 2):  # the first two rounds trace and warm up
        checking_s *= number > 2
        # What comes after what changes, alike on all ranks, for the sake of the caches.
        for kind in np.random.default_rng(number).permutation([*kinds]):
            call = kinds[kind]
            guard(kind == "matex")
            communicator.barrier()
            for _ in range(STEPS_A_BLOCK[name]):
                started = time.perf_counter()
                call()
                if number > 1:
                    durations[kind].append((time.perf_counter() - started) * 1e3)
    dog.stop()
    medians = {kind: statistics.median(times) for kind, times in durations.items()}
    if run.communicator.world.is_leader:
        result = {f"{kind}_ms": round(median, 4) for kind, median in medians.items()}
        parts = medians["single"] + medians["allreduce"]
        checks = checking_s * 1e3 / sum(durations["matex"])
        guards = 100 * (medians["matex"] / medians["bare"] - 1 + checks)
        ratios = {
            "ratio": medians["matex"] / parts,
            "raw_ratio": medians["raw"] / parts,
            "over_raw": medians["matex"] / medians["raw"],
        }
        result |= {name: round(value, 4) for name, value in ratios.items()}
        result["guards_percent"] = round(guards, 2)
        print(json.dumps({"model": name, **result}), flush=True)


def train(name: str, ranks: int) -> None:
    """Fit for a while, then print this process's resident memory in MB."""
    import psutil

    model, x, y, batch = build(name)
    model.fit(x, y, batch_size=batch * ranks, epochs=max(2, 2048 // len(x)), verbose=0)
    memory = psutil.Process().memory_info().rss / 1e6
    print(json.dumps({"rss_mb": round(memory, 1), "parameters": model.count_params()}), flush=True)


def child(command: list[str]) -> dict[str, Any]:
    """The JSON object on the last line that *command* prints."""
    done = subprocess.run(
        command, env=environment(), check=False, capture_output=True, text=True, timeout=1800
    )
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(lines[-1])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", choices=MODELS, action="append", help="default: all")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--as", dest="role", choices=("parent", "step", "fit"), default="parent")
    arguments = parser.parse_args()
    names = arguments.model or MODELS
    if arguments.role == "step":
        measure(names[0], arguments.rounds)
        return
    if arguments.role == "fit":
        train(names[0], arguments.ranks)
        return
    for name in names:
        here = [str(Path(__file__).resolve()), "--model", name]
        matex = [sys.executable, "-m", "matex", "run", "-n", str(arguments.ranks)]
        step = [*here, "--rounds", str(arguments.rounds), "--as", "step"]
        shared = [*here, "--ranks", str(arguments.ranks), "--as", "fit"]
        with tempfile.TemporaryDirectory(prefix="bench-") as report:
            result = child([*matex, "--report", report, *step])
            memory = child([*matex, "--report", report, *shared])
        alone = child([sys.executable, *here, "--ranks", "1", "--as", "fit"])
        gradient_mb = memory["parameters"] * 4 / 1e6
        extra = (memory["rss_mb"] - alone["rss_mb"]) / gradient_mb
        result |= {
            "rss_mb": memory["rss_mb"],
            "rss_single_mb": alone["rss_mb"],
            "gradient_mb": round(gradient_mb, 2),
            "extra_gradients": round(extra, 2),
        }
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
