"""Starts of mpiexec that the system refuses, and processes that do not end."""

from __future__ import annotations

import os

import pytest

from matex.errors import InputError
from matex.launcher import job
from matex.launcher.mpiexec import Mpiexec


def test_a_command_that_is_too_long_is_told_of() -> None:
    """Linux limits each argument, such as the names of thousands of hosts, to 128 KiB."""
    command = ["/bin/true", "host:8," * 30_000]
    with pytest.raises(InputError, match=r"^/bin/true cannot be started: Argument list too long"):
        job.Job(Mpiexec("/bin/true"), command, os.environ)


def test_a_process_that_does_not_end_when_killed_is_left_and_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may wait in the kernel for a device; a process that has gone stands for it here."""
    started = job.Job(Mpiexec("/bin/true"), ["/bin/true"], os.environ)
    assert started.wait(30)
    (gone,) = [os.posix_spawn("/bin/true", ["true"], {})]
    os.waitpid(gone, 0)
    monkeypatch.setattr(job, "processes_with", lambda token: [gone])
    monkeypatch.setattr(job, "_GONE_S", 0.05)
    started.end()
    assert capsys.readouterr().out.startswith(f"matex: process {gone} does not end though")
