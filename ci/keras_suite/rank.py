"""Run Keras's own tests in this process, as one rank or alone, and write a line a test at once.

    [matex run -n N] ci/keras_suite/rank.py PLAN

PLAN is a JSON file as `ci.keras_suite.launch` writes it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import json
import os
import signal
import sys
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ci.keras_suite import absent, meeting, records
from matex.files import real

# Many tests leave iterators of tf.data to the garbage collector. TensorFlow's autotuner may miss
# that one is to end, when cores are busy, and sleeps on for as long as it has lived, up to a
# minute: a collection that comes seldom ends many, one after the other.
_COLLECTED_AFTER = 10  # tests


class Recorder:
    """A plugin of pytest: seeds each test by its name, records it, and meets the other ranks.

    Args:
        skip: tests that an earlier launch has recorded.
        out: the file of this rank's records.
        meet: waits for the other ranks.
    """

    def __init__(self, skip: set[str], out: Path, meet: Callable[[], None]) -> None:
        self._skip = skip
        with real.direct():  # of each rank, and read while it runs
            self._out = out.open("a", buffering=1, encoding="utf-8")
        self._meet = meet
        self._reports: list[Any] = []
        self._run = 0
        self._seed = records.Seeds("")

    def seed(self, given: Any = None) -> int:
        """A number for who would take the clock's."""
        return self._seed.next() if given is None else given

    def _write(self, **record: Any) -> None:
        self._out.write(json.dumps(record) + "\n")

    @pytest.hookimpl
    def pytest_configure(self, config: Any) -> None:
        for marker in ("requires_trainable_backend", "multi_device"):
            config.addinivalue_line("markers", f"{marker}: of Keras")

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Iterator[None]:
        import keras  # noqa: F401 - before there are stand-ins

        with absent.stand_ins():
            return (yield)

    @pytest.hookimpl
    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        gc.freeze()  # what was imported stays, and need not be looked at
        items[:] = [item for item in items if item.nodeid not in self._skip]
        for item in items:
            if item.get_closest_marker("multi_device"):
                item.add_marker(pytest.mark.skip(reason="TensorFlow has one device here"))

    @pytest.hookimpl
    def pytest_collectreport(self, report: Any) -> None:
        name = report.nodeid
        if report.failed and name not in self._skip:
            reason = records.reason_of(report)
            self._write(test=name, outcome="failed", seconds=0.0, reason=reason)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        import keras

        name = item.nodeid
        self._reports.clear()
        self._write(test=name)
        print(f"--- {name}", file=sys.__stderr__, flush=True)
        self._seed = records.Seeds(name)
        keras.utils.set_random_seed(self._seed.next())
        began = time.monotonic()
        result = yield
        seconds = time.monotonic() - began
        outcome, reason = records.outcome_of(self._reports)
        self._write(test=name, outcome=outcome, seconds=round(seconds, 3), reason=reason)
        self._run += 1
        if self._run % _COLLECTED_AFTER == 0:
            gc.collect()
        self._meet()
        return result

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: Any) -> None:
        self._reports.append(report)

    def end(self) -> None:
        """All tests have run."""
        self._write(end=True)
        self._out.close()


@contextlib.contextmanager
def one_clock(recorder: Recorder) -> Iterator[None]:
    """Seed generators that take their seed from the clock alike on every rank.

    Generators that are made without a seed, and names of temporary folders in a common place,
    would differ between the ranks, as they do between two runs of plain Python.
    """
    reseed, generator = np.random.seed, np.random.default_rng
    np.random.seed = lambda seed=None: reseed(recorder.seed(seed))
    np.random.default_rng = lambda seed=None: generator(recorder.seed(seed))
    try:
        yield
    finally:
        np.random.seed, np.random.default_rng = reseed, generator


def conftest() -> types.ModuleType:
    """A module with the names that Keras's tests import from the conftest missing in its wheel."""
    module = types.ModuleType("conftest")

    def skip_if_backend(backend: str, reason: str) -> Any:
        return pytest.mark.skipif(backend == "tensorflow", reason=reason)

    module.skip_if_backend = skip_if_backend  # type: ignore[attr-defined]
    return module


def main() -> int:
    plan = json.loads(Path(sys.argv[1]).read_text())
    rank, size = meeting.place()
    log = os.fdopen(os.dup(2), "w")  # pytest takes the place of 2 while a test runs
    faulthandler.register(signal.SIGUSR2, file=log, all_threads=True)
    sys.modules["conftest"] = conftest()
    root = Path(plan["root"])
    out = Path(plan["out"]) / records.file_of(rank)
    recorder = Recorder(set(plan["skip"]), out, meeting.meeting(size))
    settings = out.with_suffix(".ini")
    settings.write_text("[pytest]\n")
    options = [
        *("-c", str(settings), f"--rootdir={root}", "--continue-on-collection-errors"),
        *("--import-mode=importlib", "--assert=plain", "--tb=short", "--color=no", "-q"),
        *("-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:timeout", "-p", "no:pytest_mpi"),
        *("-p", "no:hypothesispytest", f"--basetemp={out.with_suffix('.tmp')}"),
    ]
    with one_clock(recorder):
        pytest.main([*options, *(str(root / name) for name in plan["files"])], plugins=[recorder])
    recorder.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
