"""The environment of processes that are started."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from matex.config import environment_of_started


def test_a_home_that_is_set_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/set")
    assert environment_of_started(tmp_path)["HOME"] == "/set"


@pytest.mark.parametrize("unset", [True, False])
def test_a_home_that_is_missing_is_that_of_the_user(
    unset: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "")
    if unset:
        monkeypatch.delenv("HOME")
    assert environment_of_started(tmp_path)["HOME"] == pwd.getpwuid(os.geteuid()).pw_dir


def test_a_user_without_a_home_gets_the_temporary_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(number: int) -> pwd.struct_passwd:
        raise KeyError(number)

    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    environment = environment_of_started(tmp_path)
    assert environment["HOME"] == environment["TMPDIR"] == str(tmp_path)


def test_settings_of_the_batch_system_are_among_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert environment_of_started(tmp_path)["SLURM_OVERLAP"] == "1"
