"""Importing the packages starts nothing and loads neither TensorFlow nor MPI."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

import ft
from ci.patience import patience

ROOT = Path(ft.__file__).parents[1]

PROGRAM = """
import atexit, importlib, json, os, signal, sys, threading

def state():
    return {
        "threads": threading.active_count(),
        "hooks": [f"{h.__module__}.{h.__qualname__}"
                  for h in (sys.excepthook, threading.excepthook, sys.exit, os._exit)],
        "streams": [sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__],
        "signals": [str(signal.getsignal(n)) for n in (signal.SIGTERM, signal.SIGINT)],
        "environment": dict(os.environ),
        "files": sorted(os.listdir()),
        "logging": "logging" in sys.modules and bool(sys.modules["logging"].root.handlers),
    }

before = state()
for name in sys.argv[1:]:
    importlib.import_module(name)
heavy = {"tensorflow", "keras", "mpi4py.MPI"}
print(json.dumps({"before": before, "after": state(), "heavy": sorted(heavy & set(sys.modules))}))
"""


@pytest.mark.parametrize(
    "names",
    [
        ["ft"],
        ["checkpoints"],
        ["matex"],
        ["matex.cli"],
        ["matex.partition.spans"],
        ["ft", "checkpoints", "matex", "matex.cli", "matex.partition", "matex.launcher.launch"],
        [
            "matex.config",
            "matex.records.events",
            "matex.records.summary",
            "matex.exchange.layout",
            "ft.watchdog",
        ],
    ],
    ids=" ".join,
)
def test_importing_starts_nothing(names: list[str], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *names],
        cwd=tmp_path, env={"PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=patience(60), check=True,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert found["heavy"] == []
    assert found["after"] == found["before"]
    assert done.stderr == ""


def test_public_modules_are_attributes_without_an_import_of_their_own() -> None:
    """Attributes in plain Python, too, where no run has imported them before."""
    names = "matex.callbacks, matex.data.open, matex.optimizers.LARS"
    subprocess.run(
        [sys.executable, "-c", f"import matex; print({names})"],
        cwd=ROOT, capture_output=True, timeout=patience(60), check=True,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["ft", "matex", "checkpoints"])
def test_all_is_exact(name: str) -> None:
    package = importlib.import_module(name)
    assert len(set(package.__all__)) == len(package.__all__)
    own = {
        public
        for public, value in vars(package).items()
        if not public.startswith("_") and getattr(value, "__module__", "").partition(".")[0] == name
    }
    later = set(getattr(package, "_LATER", ()))
    assert own | later <= set(package.__all__) <= set(vars(package)) | later
