"""Newcomers are forked from a process that has imported TensorFlow, and are as if started alone."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys

from ci.jobs import ROOT, environment
from ci.patience import patience
from matex.fork_server import client


def test_newcomers_are_what_they_would_be_alone() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.unit.fork_server.fork_launcher"],
        capture_output=True,
        text=True,
        timeout=patience(30),
        cwd=ROOT,
        env=environment(),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    alone, first, second, last = (found[name] for name in ("alone", "first", "second", "last"))
    assert alone["status"] == 3
    assert alone["server"] == alone["own"]  # it waits for nobody's import
    assert first["status"] == 3
    assert first["arguments"] == ["ends", "3"]
    assert first["imported"]
    assert second["server"] == first["server"] != second["process"]
    assert second["given"] == "as it came"
    assert second["temporary"] == "/dev/shm"
    assert second["cores"] == [second["core"]]
    assert first["directory"] == first["finds_first"] == str(ROOT)
    assert second["directory"] == second["finds_first"] == "/"
    assert found["told"]["status"] == -signal.SIGTERM
    assert found["killed"]["status"] == -signal.SIGKILL
    assert found["killed"]["ended"]
    assert found["aborted"]["status"] == -signal.SIGABRT
    assert last["status"] == 0
    assert last["server"] == alone["own"]
    (server,) = found["servers"]  # another, which ends with its launcher
    assert server != first["server"]
    with contextlib.suppress(ProcessLookupError):
        assert select.select([os.pidfd_open(server)], [], [], patience(10))[0]


def test_what_a_server_imported_is_for_those_alone_that_would_import_the_same() -> None:
    words = ["-m", "matex", "--report", "r", "train.py"]
    address = client.address_of(words, {"TF_X": "1", "MATEX_SEED": "1"}, 7)
    assert address == client.address_of(words, {"TF_X": "1", "MATEX_SEED": "2"}, 7)
    assert address != client.address_of(words, {"TF_X": "2", "MATEX_SEED": "1"}, 7)
    assert address != client.address_of(words, {"TF_X": "1", "MATEX_SEED": "1"}, 8)
    optimized = client.address_of(["-O", *words], {"TF_X": "1", "MATEX_SEED": "1"}, 7)
    assert optimized != address


def test_a_program_without_a_module_is_started_plainly() -> None:
    assert client.command(["train.py"]) == [sys.executable, "train.py"]
