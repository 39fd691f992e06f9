"""A leader that dies over what it alone does for all: the next leader does it again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

import ft
from tests.fault.programs import begin, end_by, mark
from tests.fault.ranks import run
from tests.train.forks import fork_server_for
from tests.train.runs import PATHS, Outcome, matex_run

# Python imports it first, in ranks and in the server that forks them. Of these functions, written
# as "module:Class.name" or "module:name", TEST_FUNCTION names one that kills the first ranks that
# call it, after the call, where there is a value to return.
NEWEST = "checkpoints.store:Store.newest_valid"
COUNTED = "checkpoints.fence:Fence.newest"
SUMMARIZED = "matex.run.life_cycle:summarize"
FUNCTIONS = [NEWEST, COUNTED, SUMMARIZED]
KILLED = """
import os, runpy, signal, sys
from importlib.machinery import PathFinder

plain_open = open  # before the files of ranks are kept apart

def killing(function, name):
    def call(*arguments, **given):
        found = function(*arguments, **given)
        if os.environ.get("TEST_FUNCTION") != name or "PMIX_RANK" not in os.environ:
            return found
        with plain_open(os.environ["TEST_DEATHS"], "a+") as file:
            file.seek(0)
            if found is not None and len(file.readlines()) < int(os.environ["TEST_LIMIT"]):
                file.write(f"{os.environ['PMIX_RANK']}\\n")
                file.flush()
                os.kill(os.getpid(), signal.SIGKILL)
        return found
    return call

class Killing:
    def find_spec(self, module_name, path_of=None, target=None):
        calls = [name for name in functions if name.partition(":")[0] == module_name]
        if not calls:
            return None
        spec = PathFinder.find_spec(module_name, path_of, target)
        execute = spec.loader.exec_module

        def changed(module):
            execute(module)
            for name in calls:
                *owner, called = name.partition(":")[2].split(".")
                holder = getattr(module, owner[0]) if owner else module
                setattr(holder, called, killing(getattr(holder, called), name))

        spec.loader.exec_module = changed
        return spec

sys.meta_path.insert(0, Killing())
runpy.run_path(os.environ["TEST_STARTUP"])  # in a rank that is forked, this is the end
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


@pytest.fixture(scope="module")
def startup(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """The environment of ranks that can be killed in a function; forked, where it is asked for."""
    folder = tmp_path_factory.mktemp("startup")
    (folder / "sitecustomize.py").write_text(f"functions = {FUNCTIONS}\n{KILLED}")
    tests_own = Path(PATHS.partition(os.pathsep)[0]) / "sitecustomize.py"
    paths = os.pathsep.join([str(folder), PATHS])
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setenv("TEST_STARTUP", str(tests_own))
        forks = request.config.getoption("--fork-ranks")
        server = stack.enter_context(fork_server_for(paths)) if forks else {}
        yield {"PYTHONPATH": paths, **server}


def killed_in(
    function: str,
    startup: dict[str, str],
    directory: Path,
    *options: str | Path,
    ranks: int = 3,
    limit: int = 1,
) -> tuple[Outcome, list[int]]:
    """Outcome of a run in which the first *limit* ranks that call *function* die, and the ranks."""
    directory.mkdir(parents=True, exist_ok=True)
    script = directory / "script.py"
    script.write_text(SCRIPT)
    outcome = matex_run(
        directory, script, ranks=ranks, options=options, timeout_s=90,
        environment={
            **startup,
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
def test_the_next_leader_looks_for_the_checkpoint(startup: dict[str, str], tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    options = ("--checkpoint", saved, "--checkpoint-interval", "0.001")
    first, none = killed_in("none", startup, tmp_path / "first", *options)
    assert (first.status, none) == (0, [])
    found, dead = killed_in(NEWEST, startup, tmp_path / "second", *options, limit=2)
    assert (found.status, dead) == (0, [0, 1])
    (resumed,) = (event for event in found.events if event["event"] == "resumed")
    assert (resumed["rank"], resumed["step"]) == (2, STEPS)
    counted, dead = killed_in(COUNTED, startup, tmp_path / "third", *options)
    assert (counted.status, dead) == (0, [0])
    assert {e["step"] for e in counted.events if e["event"] == "resumed"} == {STEPS}


@pytest.mark.timeout(240)
def test_the_next_leader_writes_the_summary(startup: dict[str, str], tmp_path: Path) -> None:
    outcome, dead = killed_in(SUMMARIZED, startup, tmp_path, "--max-restarts", "1")
    assert (outcome.status, dead) == (0, [0]), outcome.stderr
    summary = outcome.summary
    assert (summary["status"], summary["steps"], summary["restarts"]) == ("finished", STEPS, 0)
    assert summary["world_size_end"] == 2
    last = outcome.events[-1]
    assert (last["event"], last["rank"]) == ("finished", 1)


@pytest.mark.timeout(240)
def test_memory_is_kept_until_there_is_a_summary(startup: dict[str, str], tmp_path: Path) -> None:
    options = ("--max-restarts", "1", "--memory-every", "0.001")
    outcome, dead = killed_in(SUMMARIZED, startup, tmp_path, *options, ranks=2, limit=2)
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
def test_the_next_leader_restores_the_backup(startup: dict[str, str], tmp_path: Path) -> None:
    script = tmp_path / "restoring.py"
    script.write_text(RESTORING)
    for epochs, victim in ((2, "none"), (3, "0")):
        outcome = matex_run(
            tmp_path, script, str(epochs), victim, ranks=3, timeout_s=90, environment=startup
        )
        assert outcome.status == 0, outcome.stderr
    assert [lost["rank"] for lost in outcome.summary["ranks_lost"]] == [0]
    trained = {event["epoch"] for event in outcome.events if event["event"] == "epoch"}
    assert trained == {2}
