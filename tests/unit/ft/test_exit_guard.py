"""The line by which a rank that ends says why."""

from __future__ import annotations

import subprocess
import sys

ENDS = """
import ft

ft.on_fail_stop(lambda reason: print("ended:", reason, flush=True))
with ft.shielded():
    raise ValueError({text!r})
"""


def test_it_names_the_cause() -> None:
    text = "Graph execution error:\n\nDetected at node Add\n\nloss is nan\n\t [[Add]]"
    program = [sys.executable, "-c", ENDS.format(text=text)]
    done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode != 0
    assert done.stdout == "ended: ValueError: loss is nan\n"
