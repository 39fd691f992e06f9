"""``matex doctor --network`` between emulated hosts, and on one."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ci.jobs import on_ranks
from ci.network.emulated import emulated
from ci.network.switch import Link
from matex.network.table import WHAT_TO_SET
from tests.train.runs import execute

MB_S = 12.5
"""What the emulated link carries."""
DOCTOR = [sys.executable, "-m", "matex", "doctor", "--network"]


def test_two_hosts_that_take_turns_have_little_more_than_half_each(tmp_path: Path) -> None:
    """Upper bounds of speed and lower ones of time hold however busy the machine is."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and the command ip")
    link = Link(rate_bit_s=8e6 * MB_S, delay_s=1e-3)
    with contextlib.ExitStack() as stack:
        try:
            network = stack.enter_context(emulated(2, link))
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"no such network can be made here: {error}")
        done = execute(
            [*network.head, *DOCTOR, "--hosts", network.hosts(2), "--parameters", "1e6"],
            directory=tmp_path,
            **{**network.environment, "OMPI_MCA_btl_tcp_flags": "send,put"},
        )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("4 ranks on 2 hosts (host1:2, host2:2), Open MPI")
    (measured,) = [line for line in lines if line.startswith("host1 - host2  ")]
    latency, there, back, both = map(float, re.findall(r"([\d.]+) [mM]", measured))
    assert latency >= 1.0
    assert max(there, back) < 1.05 * MB_S
    assert both < 0.75 * MB_S
    plans = [line.split("  ")[0] for line in lines if line.endswith(" s") or line.endswith(" ms")]
    assert plans == ["flat", "slices", "slices", "slices"]
    assert WHAT_TO_SET in lines
    assert any("a latency of up to" in line for line in lines)


def test_on_one_host_one_line_says_what_is_wanted(tmp_path: Path) -> None:
    done = execute([*on_ranks(2), *DOCTOR], directory=tmp_path)
    assert done.returncode == 2, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("matex doctor")]
    assert "ranks on two hosts or more are wanted. Received: 2 ranks on 1 host (" in line
    assert "--hosts a:2,b:2" in line
