"""The parts of the test suite: their commands, their limits, and which run side by side."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from ci.jobs import ROOT

__all__ = ["LANES", "PARTS", "REPORTS", "Part", "parts"]

REPORTS = ROOT / ".test-reports"
_BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Part:
    """Commands that must all end with 0 within `timeout_s`, and the JUnit files they write."""

    commands: list[list[str]]
    timeout_s: float
    junit: str | None = None


def _pytest_part(name: str, slow: bool, *folders: str, timeout_s: float, at_once: int = 2) -> Part:
    """Plain pytest on *folders* of tests, or on the one of that name.

    pytest's status 5, no test collected, is a failure too.

    Args:
        at_once: number of files that are tested side by side, 2 by default, because tests that
            start ranks wait much, for mpiexec and for each other.
    """
    places = [f"tests/{folder}" for folder in folders or (name,)]
    junit = f"{name}.xml"
    options = [f"--junitxml={REPORTS / junit}", f"--numprocesses={at_once}", "--dist=loadfile"]
    options += ["--durations=20", "--durations-min=5"]
    options += [] if slow else ["-m", "not slow", "--fork-ranks"]
    return Part([[sys.executable, "-m", "pytest", *places, *options]], timeout_s, junit)


# Of the checks that run no test: seconds for each, beside the other parts on a slow machine.
_CHECK_S = 900

# Of run_mpi_tests: who gossips with whom in worlds of other sizes.
_PAIRS_OF_MORE = ("--ranks", "5", "8", "--", "tests/mpi/test_strategies.py", "-k", "gossip")


def parts(slow: bool) -> dict[str, Part]:
    """The parts by name, in their order; the limits end what hangs, on a slow machine, too."""
    return {
        "lint": Part(
            [[str(_BIN / "ruff"), "check", "."], [str(_BIN / "ruff"), "format", "--check", "."]],
            _CHECK_S,
        ),
        "types": Part([[str(_BIN / "mypy")]], _CHECK_S),
        "layering": Part([[str(_BIN / "lint-imports"), "--no-logo"]], _CHECK_S),
        "house": Part([[sys.executable, "-m", "ci.testing.house"]], _CHECK_S),
        "unit": _pytest_part("unit", slow, "unit", "ci", "examples", timeout_s=2400),
        "mpi": Part(
            [
                [sys.executable, "-m", "ci.testing.run_mpi_tests"],
                [sys.executable, "-m", "ci.testing.run_mpi_tests", *_PAIRS_OF_MORE],
            ],
            2600,
            "mpi-*/rank-*.xml",
        ),
        "fault": _pytest_part("fault", slow, timeout_s=4200),
        "slurm": _pytest_part("slurm", slow, timeout_s=3000),
        "train": _pytest_part("train", slow, timeout_s=7200 if slow else 5300, at_once=3),
        "keras": Part(
            [[sys.executable, "-m", "ci.keras_suite", "--part", "all" if slow else "quick"]],
            7200 if slow else 2400,
        ),
    }


PARTS = tuple(parts(slow=False))

#: Parts in a lane run one after the other, and lanes run side by side: the longest begins at once,
#: and fault and slurm wait for jobs to start, for deaths to be noticed, for limits.
LANES = (
    ("lint", "train"),
    ("fault", "keras"),
    ("types", "layering", "house", "slurm", "mpi", "unit"),
)
