"""A script's draws from the system's randomness: the same on all ranks, other in each run."""

from __future__ import annotations

import json
import subprocess
import sys

PROGRAM = """
import json, os, random, secrets, sys, uuid
import numpy as np
from matex.process import entropy

entropy.install(sys.argv[1])


def drawn():
    return [
        uuid.uuid4().hex, os.urandom(8).hex(), secrets.token_hex(8),
        random.Random().random(), random.SystemRandom().random(),
        np.random.default_rng().random(), np.random.RandomState().rand(),
    ]


def seeded_anew():
    random.seed()
    np.random.seed()
    return [random.random(), np.random.rand()]


found = [drawn(), drawn(), seeded_anew(), random.Random(5).random()]
reader, writer = os.pipe()
if os.fork() == 0:
    os.write(writer, json.dumps(drawn()).encode())
    os._exit(0)
os.wait()
print(json.dumps([found, json.loads(os.read(reader, 10000))]))
"""


def drawn(key: str) -> tuple[list[object], list[object]]:
    """Values of a process with *key*, and those of a child that it forks."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, key], capture_output=True, text=True, check=True
    )
    found, childs = json.loads(done.stdout)
    *values, seeded = found
    assert seeded == 0.6229016948897019  # as everywhere
    return [value for some in values for value in some], childs


def test_ranks_of_one_run_alone_draw_alike() -> None:
    values, childs = drawn("one run")
    again, others = drawn("one run")
    assert values == again
    third, _ = drawn("another")
    assert len({*values, *childs, *others, *third}) == 2 * len(values) + 2 * len(childs)
