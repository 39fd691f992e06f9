"""Hosts are found by what they call themselves, and say themselves who they are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import ft
from ci.patience import patience
from matex.launcher.host_names import HostNames, identity_in, says_who, whether_ended
from matex.launcher.hosts import Hosts
from matex.launcher.mpiexec import Mpiexec, MpiexecKind

ME = ft.Member.here(0)
HERE = (ME.host, ME.boot, ME.space)


def run(words: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, check=False, timeout=patience(60), stdout=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize(
    ("names", "host", "found"),
    [
        pytest.param(["a", "b"], "b", ["b"], id="equal"),
        pytest.param(["n1", "n2"], "n2.site.org", ["n2"], id="short in the list"),
        pytest.param(["n1.site.org", "n2.site.org"], "n2", ["n2.site.org"], id="short itself"),
        pytest.param(["n1.a", "n1.b"], "n1.b", ["n1.b"], id="equal before alike"),
        pytest.param(["n1.a", "n1.b"], "n1", [], id="two alike"),
        pytest.param(["10.0.0.1", "10.0.0.2"], "10", [], id="addresses have no labels"),
        pytest.param(["a", "b"], "c", [], id="an alias"),
        pytest.param([], "c", ["c"], id="no list"),
    ],
)
def test_a_host_is_found_by_its_name(names: list[str], host: str, found: list[str]) -> None:
    assert HostNames(names).of(host) == found


def test_what_a_host_says_of_itself_has_precedence() -> None:
    names = HostNames(["a", "b", "10.0.0.3"])
    assert (names.possible("a", "x"), names.possible("c", "z")) == (["a"], ["a", "b", "10.0.0.3"])
    names.learn({"a": ("b", "y")})
    names.learn({"b": ("a", "x")})
    assert (names.of("a"), names.of("b")) == (["b"], ["a"])
    assert names.possible("c", "z") == names.silent == ["10.0.0.3"]


def test_machines_of_one_name_are_told_by_their_boots() -> None:
    names = HostNames(["10.0.0.1", "10.0.0.2", "10.0.0.3"])
    names.learn({"10.0.0.1": ("vm", "x"), "10.0.0.2": ("vm", "y")})
    assert names.of("vm", "y") == ["10.0.0.2"]
    assert names.of("vm") == ["10.0.0.1", "10.0.0.2"]
    assert names.possible("vm", "z") == ["10.0.0.3"]


def test_a_host_says_who_it_is_beside_what_it_was_asked_to_do(tmp_path: Path) -> None:
    (tmp_path / "a b").touch()
    assert identity_in(run(says_who(["rm", str(tmp_path / "a b")])).stdout) == HERE
    assert not list(tmp_path.iterdir())
    assert run(says_who(["false"])).returncode != 0
    assert identity_in("welcome\nmatex-host n1.site.org - \n") == ("n1.site.org", "", 0)
    assert identity_in("") is None


def test_processes_have_ended_where_they_are_and_nowhere_else() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    elsewhere = ("x y'z", ME.boot, ME.space)
    asked = {elsewhere: [os.getpid()], HERE: [ended.pid]}
    assert identity_in(run(whether_ended(asked)).stdout) == HERE
    for host, boot, space, pid in (
        (*HERE, os.getpid()),
        (f"{ME.host}x", ME.boot, ME.space, ended.pid),
        (ME.host, "", ME.space, ended.pid),
        (ME.host, f"{ME.boot}0", ME.space, ended.pid),
        (ME.host, ME.boot, ME.space + 1, ended.pid),
    ):
        assert run(whether_ended({(host, boot, space): [pid]})).returncode == 1


def test_the_output_of_hosts_is_theirs(tmp_path: Path) -> None:
    mpiexec = tmp_path / "mpiexec"
    mpiexec.write_text('#!/bin/sh\necho "$2"\n[ "$2" != b:1 ]\n')
    mpiexec.chmod(0o755)
    hosts = Hosts(mpiexec=Mpiexec(str(mpiexec), MpiexecKind.HYDRA), environment=os.environ)
    assert hosts.ask(["c", "b", "a"], ["true"]) == {"c": "c:1\n", "a": "a:1\n"}
    assert hosts.run(["c", "b", "a"], ["true"]) == ["c", "a"]
