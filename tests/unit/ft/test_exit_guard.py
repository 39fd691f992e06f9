"""The line by which a rank that ends says why."""

from __future__ import annotations

import subprocess
import sys

import pytest

ENDS = """
import ft

ft.on_fail_stop(lambda reason: print("ended:", reason, flush=True))
with ft.shielded():
    raise ValueError({text!r})
"""
OF_A_GRAPH = """Graph execution error:

Detected at node CheckNumerics defined at (most recent call last):
  File "script.py", line 9, in step

loss is nan : Tensor had NaN values
\t [[{{node CheckNumerics}}]] [Op:__inference_step_261]"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("the disk is full\n  of files", ": the disk is full"),
        (OF_A_GRAPH, ": loss is nan : Tensor had NaN values"),
        ("these are missing:\n  a\n  b", ": these are missing:"),
        ("", ""),
    ],
    ids=["first-line", "below-a-heading", "details-only", "nothing"],
)
def test_it_names_the_cause(text: str, cause: str) -> None:
    program = [sys.executable, "-c", ENDS.format(text=text)]
    done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode != 0
    assert done.stdout == f"ended: ValueError{cause}\n"
