"""A leader that dies over what it alone does for all: the next leader does it again."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import ft
from tests.fault.ranks import begin, end_by, mark, run
from tests.train.runs import PATHS, Outcome, matex_run

# Python imports it first. It kills the first ranks that call a function, given as
# "module:Class.name" or "module:name"; after the call, where there is a value to return.
KILLED = """
import importlib.util, os, signal, sys

module_name, _, path = os.environ["TEST_FUNCTION"].partition(":")
plain_open = open  # before the files of ranks are kept apart

def killing(function):
    def call(*arguments, **given):
        found = function(*arguments, **given)
        with plain_open(os.environ["TEST_DEATHS"], "a+") as file:
            file.seek(0)
            if found is not None and len(file.readlines()) < int(os.environ["TEST_LIMIT"]):
                file.write(f"{os.environ['PMIX_RANK']}\\n")
                file.flush()
                os.kill(os.getpid(), signal.SIGKILL)
        return found
    return call

class Killing:
    def find_spec(self, name, path_of=None, target=None):
        if name != module_name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def changed(module):
            execute(module)
            *owner, called = path.split(".")
            holder = getattr(module, owner[0]) if owner else module
            setattr(holder, called, killing(getattr(holder, called)))

        spec.loader.exec_module = changed
        return spec

if "PMIX_RANK" in os.environ:
    sys.meta_path.insert(0, Killing())
"""

SCRIPT = """
import keras, numpy as np
keras.utils.set_random_seed(1)
x = np.random.default_rng(0).random((64, 2), "float32")
model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(x, x[:, :1], batch_size=8, epochs=2, verbose=0)
"""
STEPS = 16


def killed_in(
    function: str, directory: Path, *options: str | Path, ranks: int = 3, limit: int = 1
) -> tuple[Outcome, list[int]]:
    """Outcome of a run in which the first *limit* ranks that call *function* die, and the ranks."""
    startup = directory / "startup"
    startup.mkdir(parents=True, exist_ok=True)
    (startup / "sitecustomize.py").write_text(KILLED)
    script = directory / "script.py"
    script.write_text(SCRIPT)
    outcome = matex_run(
        directory, script, ranks=ranks, options=options, timeout_s=90,
        environment={
            "PYTHONPATH": os.pathsep.join([str(startup), PATHS]),
            "TEST_DEATHS": str(directory / "deaths"),
            "TEST_FUNCTION": function,
            "TEST_LIMIT": str(limit),
        },
    )  # fmt: skip
    deaths = directory / "deaths"
    return outcome, [int(line) for line in deaths.read_text().split()] if deaths.exists() else []


def one_finds(victims: list[int], length: int) -> None:
    """The ranks *victims* die one after another when they have found the answer."""
    communicator = begin()
    rank = communicator.world.rank

    def look() -> bytes:
        mark("looked")
        if rank in victims:
            end_by("SIGKILL")
        return bytes([rank]) * length

    mark("answer", [*set(ft.one_answer(communicator, look))])
    mark("of three", [*set(ft.one_answer(communicator, look, sources=[3, 2]))])


@pytest.mark.parametrize(
    ("victims", "finder", "looked"), [([0], 1, {0, 1, 3}), ([0, 1, 3], 2, {0, 1, 2, 3})]
)
def test_an_answer_is_of_one_that_has_looked(
    victims: list[int], finder: int, looked: set[int]
) -> None:
    job = run(one_finds, ranks=4, victims=victims, length=100)
    living = {0, 1, 2, 3} - set(victims)
    assert job["answer"] == {rank: [finder] for rank in living | {3}}, job.output
    assert job["of three"] == {rank: [max(living)] for rank in living}
    assert (set(job["looked"]), job.ended) == (looked, living)


def two_hold(how: str) -> None:
    """The leader dies between its two messages: the next one's answer has another length."""
    communicator = begin()
    rank = communicator.world.rank
    broadcast = communicator.broadcast
    made = []

    def second(*given: object, **named: object) -> None:
        made.append(1)
        if len(made) == 2 and rank == 0:
            end_by(how)
        broadcast(*given, **named)

    communicator.broadcast = second
    answer = ft.one_answer(communicator, lambda: b"x" * (3 + rank))
    mark("answer", answer.decode())


def test_an_answer_is_whole_where_the_leader_dies_over_sending_it() -> None:
    job = run(two_hold, ranks=3, how="SIGKILL")
    assert job["answer"] == {1: "xxxx", 2: "xxxx"}, job.output
    assert job.ended == {1, 2}


def two_have_it(directory: str) -> None:
    """Ranks 0 and 1 hold the newest snapshot in memory; rank 0 dies when it is to send it."""
    from pathlib import Path

    import checkpoints
    from matex.checkpointing.resume import newest_common_snapshot

    communicator = begin()
    rank = communicator.world.rank
    own = checkpoints.Store(f"{directory}/{rank}")
    if rank < 2:
        own.save(checkpoints.Snapshot(weights={"x": np.ones(9)}, cursor={"step": 5, "fit": 0}))
    if rank == 0:
        Path.read_bytes = np.fromfile = lambda *given: end_by("SIGKILL")
    found = newest_common_snapshot(communicator, files=None, memory=own)
    mark("step", found.step)


def test_any_living_holder_sends_the_snapshot(tmp_path: Path) -> None:
    job = run(two_have_it, ranks=3, directory=str(tmp_path))
    assert job["step"] == {1: 5, 2: 5}, job.output
    assert set(job["dying"]) == {0}


@pytest.mark.timeout(240)
def test_the_next_leader_looks_for_the_checkpoint(tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    options = ("--checkpoint", saved, "--checkpoint-interval", "0.001")
    first, none = killed_in("no.such:function", tmp_path / "first", *options)
    assert (first.status, none) == (0, [])
    found, dead = killed_in(
        "checkpoints.store:Store.newest_valid", tmp_path / "second", *options, limit=2
    )
    assert (found.status, dead) == (0, [0, 1])
    (resumed,) = (event for event in found.events if event["event"] == "resumed")
    assert (resumed["rank"], resumed["step"]) == (2, STEPS)
    counted, dead = killed_in("checkpoints.fence:Fence.newest", tmp_path / "third", *options)
    assert (counted.status, dead) == (0, [0])
    assert {e["step"] for e in counted.events if e["event"] == "resumed"} == {STEPS}


@pytest.mark.timeout(240)
def test_the_next_leader_writes_the_summary(tmp_path: Path) -> None:
    outcome, dead = killed_in("matex.run.life_cycle:summarize", tmp_path, "--max-restarts", "1")
    assert (outcome.status, dead) == (0, [0]), outcome.stderr
    summary = outcome.summary
    assert (summary["status"], summary["steps"], summary["restarts"]) == ("finished", STEPS, 0)
    assert summary["world_size_end"] == 2
    last = outcome.events[-1]
    assert (last["event"], last["rank"]) == ("finished", 1)


@pytest.mark.timeout(240)
def test_memory_is_kept_until_there_is_a_summary(tmp_path: Path) -> None:
    options = ("--max-restarts", "1", "--memory-every", "0.001")
    outcome, dead = killed_in(
        "matex.run.life_cycle:summarize", tmp_path, *options, ranks=2, limit=2
    )
    assert (outcome.status, sorted(dead)) == (0, [0, 1]), outcome.stderr
    resumed = [event["step"] for event in outcome.events if event["event"] == "resumed"]
    assert resumed and min(resumed) >= STEPS - 2


RESTORING = """
import os, signal, sys
import keras, numpy as np

class Restoring(keras.callbacks.BackupAndRestore):
    def on_train_begin(self, logs=None):
        super().on_train_begin(logs)
        if os.environ["PMIX_RANK"] == sys.argv[2]:
            os.kill(os.getpid(), signal.SIGKILL)

x = np.random.default_rng(0).random((64, 2), "float32")
model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
backup = Restoring("backup", delete_checkpoint=False)
model.fit(x, x[:, :1], batch_size=8, epochs=int(sys.argv[1]), verbose=0, callbacks=[backup])
"""


@pytest.mark.timeout(240)
def test_the_next_leader_restores_the_backup(tmp_path: Path) -> None:
    script = tmp_path / "restoring.py"
    script.write_text(RESTORING)
    for epochs, victim in ((2, "none"), (3, "0")):
        outcome = matex_run(tmp_path, script, str(epochs), victim, ranks=3, timeout_s=90)
        assert outcome.status == 0, outcome.stderr
    assert [lost["rank"] for lost in outcome.summary["ranks_lost"]] == [0]
    trained = {event["epoch"] for event in outcome.events if event["event"] == "epoch"}
    assert trained == {2}
