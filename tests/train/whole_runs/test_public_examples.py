"""The examples in the docstrings of matex's public names run on two ranks, with Keras."""

from __future__ import annotations

from pathlib import Path

from ci.jobs import ROOT
from ci.testing.public_names import public_names
from tests.train.runs import matex_run


def test_every_example_gives_what_it_says(tmp_path: Path) -> None:
    done = matex_run(tmp_path, "public_examples.py", ranks=2)
    assert done.status == 0, done.stderr
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("ran "))
    wanted = {
        public.name
        for public in public_names(ROOT)
        if public.package.startswith("matex") and not public.name.endswith(("Error", "Leave"))
    }
    errors = {"NonFiniteGradients", "NotShareable", "ReplicasDiverged", "StopRequested"}
    errors |= {"Unsupported"}
    assert set(line.split()[1:]) == wanted - errors
