"""Scripts by plain Python and on ranks, each in a folder of its own.

Run as a program it is what such a run starts: it runs several scripts one after the other in one
process, so that TensorFlow is started once:

    python -m ci.user_scripts.runs FOLDER script.py ...
    matex run -n 3 ci/user_scripts/runs.py FOLDER script.py ...
"""

from __future__ import annotations

import gc
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ci.jobs import ROOT, environment
from ci.patience import patience

SCRIPTS = ROOT / "tests" / "scripts"
_BEGIN, _END = "==== begins: ", "==== ended: "


class Way(NamedTuple):
    """A way to run a script: plain Python, or ``matex run`` on so many ranks with these faults.

    With *respawns* new processes take the places of ranks that die.
    """

    name: str
    ranks: int = 0
    faults: tuple[str, ...] = ()
    respawns: bool = False

    def command(self) -> list[str]:
        """Words of the command line before the script."""
        if not self.ranks:
            return [sys.executable]
        faults = [word for fault in self.faults for word in ("--inject", fault)]
        respawn = ["--respawn"] if self.respawns else []
        return [sys.executable, "-m", "matex", "run", "-n", str(self.ranks), *respawn, *faults]


class Ended(NamedTuple):
    """The end of one run of a script. *status* is None where the script did not reach its end."""

    status: int | None
    stdout: str
    stderr: str
    folder: Path


PLAIN = Way("plain")


def names() -> list[str]:
    """All scripts, without their suffix."""
    return sorted(path.stem for path in SCRIPTS.glob("*.py") if path.stem != "__init__")


def run_alone(name: str, way: Way, folder: Path, *, timeout_s: float) -> Ended:
    """Run one script in *folder*, which is made."""
    folder.mkdir(parents=True)
    done = _execute([*way.command(), str(SCRIPTS / f"{name}.py")], folder, timeout_s)
    return Ended(done.returncode, done.stdout, done.stderr, folder)


def run_bundle(
    scripts: Sequence[str], way: Way, folder: Path, *, timeout_s: float
) -> dict[str, Ended]:
    """Run *scripts* in one launch, each in *folder*/name; by name how it went."""
    folder.mkdir(parents=True)
    paths = [str(SCRIPTS / f"{name}.py") for name in scripts]
    command = [*way.command(), str(Path(__file__).resolve()), str(folder), *paths]
    done = _execute(command, folder, timeout_s)
    ended = {}
    for name in scripts:
        _, began, rest = done.stdout.partition(f"{_BEGIN}{name}\n")
        printed, whole, _ = rest.partition(f"{_END}{name}\n")
        # Of a script that did not end, the run's status; of one after it there is none.
        status = 0 if whole else done.returncode or None if began else None
        ended[name] = Ended(status, printed, done.stderr, folder / name)
    return ended


def _execute(
    command: Sequence[str], folder: Path, timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Run *command* in *folder*; what it started is gone afterwards. Status -1: no end in time."""
    variables = environment(
        KERAS_BACKEND="tensorflow",
        TF_CPP_MIN_LOG_LEVEL="3",
        PYTHONWARNINGS="ignore",
        COLUMNS="100",
    )
    process = subprocess.Popen(
        list(command),
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    status = None
    limit_s = patience(timeout_s)
    try:
        stdout, stderr = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGTERM)  # the first lets ranks save, the second ends them
        stdout, stderr = process.communicate(timeout=60)
        status = -1
        stderr += f"\nno end within {limit_s:g} s\n"
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
    return subprocess.CompletedProcess(
        list(command), process.returncode if status is None else status, stdout, stderr
    )


def main(folder: Path, scripts: Sequence[str]) -> None:
    """Run *scripts* one after the other; an exception of one of them ends all."""
    import keras

    gc.freeze()  # what TensorFlow and Keras are made of need not be looked through each time
    for script in map(Path, scripts):
        place = folder / script.stem
        place.mkdir(exist_ok=True)
        os.chdir(place)
        print(f"{_BEGIN}{script.stem}", flush=True)
        runpy.run_path(str(script), run_name="__main__")
        print(f"{_END}{script.stem}", flush=True)
        keras.config.set_dtype_policy("float32")
        keras.backend.clear_session()
        gc.collect()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2:])
