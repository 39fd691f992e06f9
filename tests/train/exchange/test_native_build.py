"""The native exchange is built by whoever comes first, kept, and done without where it must be."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.train.runs import Outcome, assert_whole, execute, matex_run

ARGUMENTS = ["--epochs", "1", "--optimizer", "sgd"]


@pytest.fixture(scope="module")
def full_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the library in it, as ``matex build`` on a login node leaves it."""
    cache = tmp_path_factory.mktemp("cache")
    built(cache)
    return cache


def built(cache: Path, **environment: str) -> str:
    """The output of ``matex build``; TensorFlow's own messages are on stderr."""
    done = execute(
        [sys.executable, "-m", "matex", "build"],
        directory=cache, MATEX_CACHE=str(cache), **environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def train(directory: Path, *, ranks: int = 1, **environment: str) -> Outcome:
    outcome = matex_run(directory, "classify.py", *ARGUMENTS, ranks=ranks, environment=environment)
    assert_whole(outcome, world_size_end=ranks, losses=outcome.losses)
    return outcome


def chosen(outcome: Outcome) -> list[tuple[str, str]]:
    """(kind, why) of each rank."""
    return [(e["kind"], e["why"]) for e in outcome.events if e["event"] == "exchange"]


@pytest.fixture
def no_compiler(tmp_path: Path) -> str:
    """A PATH with what starting ranks needs, and no compiler."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "env", "hostname"):
        found = shutil.which(name)
        if found:
            (folder / name).symlink_to(found)
    return str(folder)


def test_many_ranks_on_an_empty_cache_build_it_once(tmp_path: Path) -> None:
    outcome = train(tmp_path, ranks=4, MATEX_CACHE=str(tmp_path / "cache"))
    kinds, reasons = zip(*chosen(outcome), strict=True)
    assert set(kinds) == {"native"}
    assert sorted(why.split()[0] for why in reasons) == ["built"] + ["from"] * 3
    assert sorted(p.suffix for p in (tmp_path / "cache").iterdir()) == [".lock", ".so"]


def test_without_a_compiler_training_goes_on_and_says_so(tmp_path: Path, no_compiler: str) -> None:
    outcome = train(tmp_path, MATEX_CACHE=str(tmp_path / "cache"), PATH=no_compiler)
    assert {kind for kind, _ in chosen(outcome)} == {"host"}
    line = "matex: using the host exchange: no C++ compiler was found"
    assert outcome.stdout.count(line) == 1


def test_a_node_without_a_compiler_uses_what_was_built(
    tmp_path: Path, no_compiler: str, full_cache: Path
) -> None:
    outcome = train(tmp_path, MATEX_CACHE=str(full_cache), PATH=no_compiler)
    assert set(chosen(outcome)) == {("native", "from the cache")}


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    no_folder = tmp_path / "file"
    no_folder.write_text("")
    outcome = train(tmp_path, MATEX_CACHE=str(no_folder / "cache"))
    assert {kind for kind, _ in chosen(outcome)} == {"native"}


def test_native_without_a_compiler_is_refused_by_all(tmp_path: Path, no_compiler: str) -> None:
    outcome = matex_run(
        tmp_path, "classify.py", *ARGUMENTS, ranks=2, options=["--exchange", "native"],
        environment={"MATEX_CACHE": str(tmp_path / "cache"), "PATH": no_compiler},
    )  # fmt: skip
    assert outcome.status == 1
    assert "exchange must be native on every rank" in outcome.stderr
    assert outcome.summary["status"] == "failed"


@pytest.mark.parametrize("damage", ["cut", "bit", "text", "empty"])
def test_a_broken_cache_heals_itself(damage: str, tmp_path: Path, full_cache: Path) -> None:
    (library,) = full_cache.glob("*.so")
    content = library.read_bytes()
    cache = tmp_path / "cache"
    cache.mkdir()
    broken = cache / library.name
    broken.write_bytes(
        {
            "cut": content[: len(content) // 2],
            "bit": content[:9000] + bytes([content[9000] ^ 1]) + content[9001:],
            "text": b"not a library",
            "empty": b"",
        }[damage]
    )
    assert "built by" in built(cache)
    if damage == "bit":  # the others are built anew in the same way
        assert "from the cache" in built(cache)
    assert len(broken.read_bytes()) == len(content)


def test_doctor_says_which_exchange_runs_and_why(
    tmp_path: Path, no_compiler: str, full_cache: Path
) -> None:
    def line(**environment: str) -> str:
        done = execute([sys.executable, "-m", "matex", "doctor"], directory=tmp_path, **environment)
        (found,) = [x for x in done.stdout.splitlines() if x[2:].startswith("exchange")]
        return found

    assert "native (from the cache)" in line(MATEX_CACHE=str(full_cache))
    empty = str(tmp_path / "cache")
    said = line(MATEX_CACHE=empty, PATH=no_compiler, TMPDIR=str(tmp_path))
    assert "host (no C++ compiler was found)" in said


def test_releases_of_tensorflow_have_files_of_their_own() -> None:
    from matex.exchange.library import Recipe

    names = {Recipe(tensorflow=v, flags=()).name for v in ("2.20.0 a", "2.21.0 a", "2.21.0 b")}
    assert len(names) == 3
    assert os.sep not in "".join(names)
