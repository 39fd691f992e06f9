"""The descriptor of a rank's tree takes no number that another file has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import matex
from ci.patience import patience

ROOT = Path(matex.__file__).parents[1]

PROGRAM = """
import resource, socket, sys
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), hard))
limit, when = int(sys.argv[2]), sys.argv[3]
if when == "before":
    from matex.files import scratch
pairs = []
while not pairs or pairs[-1][1].fileno() < limit:
    pairs.append(socket.socketpair())
from matex.files import scratch
own = scratch.Scratch()
own.ensure()
open(scratch.ALIAS + "/x", "w").write("mine")
print(open(own.tree + "/x").read())
for here, there in pairs:
    here.send(b"x")
    assert there.recv(1) == b"x"
own.remove()
print(scratch.ALIAS)
"""


def taken(soft: int, limit: int, when: str) -> str:
    """Alias of a program with as many open sockets, *before* which it imports the module or not."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(soft), str(limit), when],
        cwd=ROOT, capture_output=True, text=True, timeout=patience(60), check=True,
    )  # fmt: skip
    written, alias = done.stdout.split()
    assert written == "mine"
    return alias


def test_it_has_one_number_on_all_ranks_and_the_sockets_of_mpi_have_others() -> None:
    assert taken(2000, 950, "before") == "/proc/self/fd/900"


@pytest.mark.parametrize(("soft", "limit"), [(2000, 950), (200, 190)])
def test_a_number_that_is_taken_already_stays_with_its_file(soft: int, limit: int) -> None:
    assert int(taken(soft, limit, "after").rpartition("/")[2]) >= 900


def test_it_is_there_before_mpi_starts() -> None:
    program = (
        "import sys, matex.process.mpi_start\n"
        "from ft import mpi\n"
        "print('matex.files.scratch' in sys.modules, mpi.is_initialized())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True,
        timeout=patience(60), check=True,
    )  # fmt: skip
    assert done.stdout == "True False\n"
