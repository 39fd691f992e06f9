"""Bad input to the command: status 2, one line that names it, at once, and nothing started."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import matex
from ci.patience import patience

ROOT = Path(matex.__file__).parents[1]
SCRIPT = "print('this script must not run')\n"

# Runs commands as `python -m matex` does, each in a copy of this process, which has done no more
# than to load the command line; and tells what each had imported in the end.
PROGRAM = """
import json, os, runpy, sys
import matex.cli
for folder, words in json.load(sys.stdin):
    if os.fork():
        status = os.waitstatus_to_exitcode(os.wait()[1])
        with open(folder + "/status", "w") as file:
            file.write(str(status))
        continue
    for number, path in enumerate((os.devnull, folder + "/stdout", folder + "/stderr")):
        os.dup2(os.open(path, os.O_CREAT | os.O_RDWR), number)
    os.chdir(folder + "/place")
    sys.argv = ["matex", *words]
    try:
        runpy.run_module("matex", run_name="__main__", alter_sys=False)
        sys.exit()
    finally:
        heavy = sorted({"tensorflow", "keras", "mpi4py.MPI", "h5py"} & set(sys.modules))
        with open(folder + "/imported", "w") as file:
            file.write(" ".join(heavy))
"""


class Ended(NamedTuple):
    """The outcome of a command, and the names of what lies in its folder afterwards."""

    status: int
    stdout: str
    stderr: str
    imported: str
    files: set[str]


BAD = {
    "no ranks at all": (
        ["run", "-n", "0", "train.py"],
        "matex run: -n/--ranks must be at least 1. Received: '0'",
    ),
    "negative ranks": (
        ["run", "-n", "-2", "train.py"],
        "matex run: -n/--ranks must be at least 1. Received: '-2'",
    ),
    "ranks in words": (
        ["run", "-n", "two", "train.py"],
        "-n/--ranks must be a whole number of at least 1. Received: 'two'",
    ),
    "number of ranks missing": (["run", "train.py"], "-n N, the number of ranks, is wanted"),
    "script missing": (["run", "-n", "2"], "arguments are required: SCRIPT (see matex run --help)"),
    "script is no file": (["run", "-n", "2", "none.py"], "Received: none.py, which is no file"),
    "the script's options are its own": (
        ["run", "-n", "2", "none.py", "--rank", "3", "--check", "x", "-n", "0"],
        "Received: none.py, which is no file",
    ),
    "module is not there": (
        ["run", "-n", "2", "-m", "no_such.module", "--epochs", "2"],
        "a module is wanted. Received: no_such.module, which is not found",
    ),
    "script is a directory": (["run", "-n", "2", "."], "which is no file"),
    "unknown fault": (
        ["run", "-n", "2", "--inject", "explode:rank=0,step=1", "train.py"],
        "kind must be one of kill",
    ),
    "more faults than ranks": (
        ["run", "-n", "2", "--inject", "kill:rank=0+1,step=1", "train.py"],
        "more faults than ranks",
    ),
    "a fault for a rank that is not": (
        ["run", "-n", "2", "--inject", "kill:rank=2,step=1", "train.py"],
        "rank must be below the number of ranks, 2",
    ),
    "a fault for a host that is not": (
        ["run", "-n", "2", "--inject", "node:host=no-host,step=1", "train.py"],
        "fault 'node:host=no-host,step=1': host must be one that ranks are on: ",
    ),
    "a plan that is not there": (
        ["run", "-n", "2", "--inject-file", "none.csv", "train.py"],
        "a fault plan must be a CSV file. Received: none.csv: No such file",
    ),
    "a plan that is no plan": (
        ["run", "-n", "2", "--inject-file", "train.py", "train.py"],
        "train.py, line 1: ",
    ),
    "a sample of nothing": (["faults", "sample", "--mtbf", "2h", "--ranks", "4"], "--hours"),
    "a sample with an age": (
        ["faults", "sample", "--mtbf", "old", "--ranks", "4", "--hours", "1"],
        "a duration such as 90s, 30m, 2h or 1d is wanted. Received: old",
    ),
    "a sample of one rank": (
        ["faults", "sample", "--mtbf", "1h", "--ranks", "1", "--hours", "1"],
        "ranks must be at least 2, for one must survive. Received: ranks=1",
    ),
    "unknown option": (
        ["run", "-n", "2", "--fast", "train.py"],
        "matex run: unrecognized arguments: --fast",
    ),
    "misspelt option": (
        ["run", "-n", "2", "--statregy=sync", "train.py"],
        "matex run: unrecognized arguments: --statregy=sync; did you mean --strategy?",
    ),
    "misspelt option of an action": (
        ["data", "info", "train.py", "--lable=2"],
        "matex data info: unrecognized arguments: --lable=2; did you mean --label?",
    ),
    "seed in words": (["run", "-n", "2", "--seed", "x", "train.py"], "--seed"),
    "seed too large": (
        ["run", "-n", "2", "--seed", "4294967296", "train.py"],
        "seed must be below 4294967296",
    ),
    "negative seed": (["run", "-n", "2", "--seed", "-1", "train.py"], "seed must be at least 0"),
    "nothing kept": (["run", "-n", "2", "--keep", "0", "train.py"], "keep must be at least 1"),
    "unknown strategy": (
        ["run", "-n", "2", "--strategy", "rumour", "train.py"],
        "--strategy must be one of sync, gossip, daso, easgd, downpour. Received: 'rumour'",
    ),
    "a rate for a batch that stays": (
        ["run", "-n", "2", "--lr-scaling", "linear", "train.py"],
        "give --batch-per-rank too",
    ),
    "an exchange that does not know the compression": (
        ["run", "-n", "2", "--compression", "powersgd:4", "--exchange", "native", "train.py"],
        "leave --exchange out, or give another --compression. Received: --exchange native with "
        "--compression powersgd:4",
    ),
    "an optimizer that Keras has not": (
        ["run", "-n", "2", "--strategy", "downpour", "--centre-optimizer", "foo", "train.py"],
        "--centre-optimizer must name an optimizer of Keras: one of adadelta, ",
    ),
    "a rate of an optimizer that is none": (
        [
            "run",
            "-n",
            "2",
            "--strategy",
            "downpour",
            "--centre-optimizer",
            "adam:learning_rate=abc",
            "train.py",
        ],
        "--centre-optimizer must have a finite number above 0 as learning_rate. "
        "Received: --centre-optimizer adam:learning_rate=abc",
    ),
    "a factor without end": (
        [
            "run",
            "-n",
            "2",
            "--batch-per-rank",
            "--lr-scaling",
            "linear",
            "--warmup-epochs",
            "inf",
            "train.py",
        ],
        "--warmup-epochs must be a finite number of at least 0 epochs. Received: 'inf'",
    ),
    "the best by a name of nothing": (
        [
            "run",
            "-n",
            "2",
            "--checkpoint",
            "c",
            "--keep-best",
            "2",
            "--monitor",
            "max:",
            "train.py",
        ],
        "--monitor must be the name of a value in the logs",
    ),
    "the best of none": (
        ["run", "-n", "2", "--checkpoint", "c", "--monitor", "loss", "train.py"],
        "--monitor wants --keep-best K, where it has an effect. Received: --monitor loss without",
    ),
    "a default that has no effect": (
        ["run", "-n", "2", "--keep", "3", "train.py"],
        "--keep wants --checkpoint DIR, where it has an effect. Received: --keep 3 without it",
    ),
    "memory that nothing is read from": (
        ["run", "-n", "2", "--memory-every", "7", "train.py"],
        "--memory-every wants --max-restarts R, where it has an effect. Received: --memory-every 7",
    ),
    "no patience": (
        ["run", "-n", "2", "--hang-timeout", "0", "train.py"],
        "--hang-timeout must be above 0 seconds. Received: '0'",
    ),
    "restarts in words": (
        ["run", "-n", "2", "--max-restarts", "some", "train.py"],
        "--max-restarts must be a whole number of at least 0. Received: 'some'",
    ),
    "growing from nowhere": (
        ["run", "-n", "2", "--grow", "train.py"],
        "--grow wants --checkpoint DIR",
    ),
    "a wall time of no form": (
        ["run", "-n", "2", "--wall-time", "90", "train.py"],
        "--wall-time must be a time HH:MM:SS above zero. Received: '90'",
    ),
    "report under a file": (
        ["run", "-n", "2", "--report", "train.py/out", "train.py"],
        "--report must be a directory. Received: ",
    ),
    "hosts with words for numbers": (
        ["run", "-n", "2", "--hosts", "a:x", "train.py"],
        "as in a:2,b:2. Received: 'a:x'",
    ),
    "a host without a name": (
        ["run", "-n", "2", "--hosts", "a:1,,b", "train.py"],
        "as in a:2,b:2. Received: 'a:1,,b'",
    ),
    "more deaths than ranks": (
        ["run", "-n", "1", "--inject", "kill:rank=0,step=3", "train.py"],
        "more faults than ranks",
    ),
    "a network without hosts": (
        ["doctor", "--network"],
        "--network wants two hosts or more, as --hosts a:2,b:2 or from a batch job. Received: this",
    ),
    "a network of one host": (
        ["doctor", "--network", "--hosts", "a:4"],
        "--hosts must name two hosts or more. Received: a:4",
    ),
    "ranks that do not reach the second host": (
        ["doctor", "--network", "--hosts", "a:2,b:2", "-n", "2"],
        "-n must reach the second host: a takes 2. Received: 2",
    ),
    "a model of no parameters": (
        ["doctor", "--network", "--parameters", "1.5"],
        "a whole number of at least 1 is wanted. Received: 1.5",
    ),
    "hosts for the usual doctor": (
        ["doctor", "--hosts", "a:2,b:2"],
        "--hosts wants --network. Received: none",
    ),
    "no command": ([], "a command is wanted (run, top, resize, "),
    "an unknown action": (
        ["data", "show", "train.py"],
        "matex data: action must be one of info, convert. Received: 'show'",
    ),
    "ranks to resize to in words": (
        ["resize", ".", "two"],
        "N must be a whole number. Received: 'two'",
    ),
    "hours in words": (
        ["faults", "sample", "--mtbf", "2h", "--ranks", "4", "--hours", "x"],
        "--hours must be a number. Received: 'x'",
    ),
    "a part of a model that is more": (
        ["prune", "train.py", "--ratio", "3"],
        "--ratio must be between 0 and 1. Received: 3",
    ),
    "an unknown criterion": (
        ["prune", "train.py", "--criterion", "luck"],
        "--criterion must be one of gram, projection, ",
    ),
    "a file in a directory that is not there": (
        ["checkpoint", "archive", "ck", "none/small.h5"],
        "OUT must be in a directory that exists. Received: none/small.h5; make none first",
    ),
    "a directory for a file": (
        ["report", "a", "b", "--index", "."],
        "--index must be a file. Received: the directory .",
    ),
    "unknown command": (
        ["rum", "-n", "2"],
        "a Keras script or a command (run, top, resize, drain, report, data, faults, prune, "
        "checkpoint, doctor, build) is wanted. Received: rum, which is no file",
    ),
    "a rank without a script": (["none.py"], "which is no file"),
}


HELP = {" ".join(words): words for words in (["--help"], ["run", "--help"], ["-h"])}


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ended]:
    """The outcome of each of these commands, all of them run by one process."""
    commands = {**{case: words for case, (words, _) in BAD.items()}, **HELP}
    folders = {case: tmp_path_factory.mktemp("command") for case in commands}
    for folder in folders.values():
        (folder / "place").mkdir()
        (folder / "place" / "train.py").write_text(SCRIPT)
    # The limit is that of a slow machine: TensorFlow alone would take longer to import.
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps([[str(folders[case]), words] for case, words in commands.items()]),
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, timeout=patience(30), check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return {
        case: Ended(
            int((folder / "status").read_text()),
            *((folder / name).read_text() for name in ("stdout", "stderr", "imported")),
            {path.name for path in (folder / "place").iterdir()},
        )
        for case, folder in folders.items()
    }


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_one_line_and_status_2(case: str, ended: dict[str, Ended]) -> None:
    done = ended[case]
    assert done.status == 2, done.stderr
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert BAD[case][1] in line
    assert done.imported == ""
    assert done.files == {"train.py"}


@pytest.mark.parametrize("words", HELP)
def test_help_says_what_there_is(words: str, ended: dict[str, Ended]) -> None:
    done = ended[words]
    assert (done.status, done.stderr) == (0, "")
    assert "usage: matex" in done.stdout
    assert done.imported == ""
