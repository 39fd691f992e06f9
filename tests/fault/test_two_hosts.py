"""Two hosts, each with a network, a name and a memory of its own; one is lost with its daemon."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci.patience import patience
from tests.train.runs import matex_run

# One of the private networks; a bridge joins the hosts and this one.
HOSTS = {"mxa": "10.77.41.2", "mxb": "10.77.41.3"}
BRIDGE, HERE, NETWORK = "mxbr", "10.77.41.1", "10.77.41.0/24"

# What Open MPI's launcher calls in place of ssh: HOST COMMAND... A host that is down does not
# answer.
AGENT = """#!/bin/sh
case $1 in {cases} *) exit 255;; esac
shift
if [ "$name" = mxb ] && [ -e {down} ]; then exit 255; fi
exec ip netns exec $name unshare --uts --mount sh -c \
    "hostname $name; mount --bind {memory}/$name /dev/shm; $*"
"""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=patience(30))


def remove(memory: Path) -> None:
    """The network, and what the hosts have in memory."""
    for words in (*(("netns", "del", name) for name in HOSTS), ("link", "del", BRIDGE)):
        subprocess.run(["ip", *words], capture_output=True, timeout=patience(30), check=False)
    # A rank of a lost host may still be on its way out: that is not to keep it here.
    subprocess.run(
        ["umount", "--lazy", memory], capture_output=True, timeout=patience(30), check=False
    )


@pytest.fixture
def two_hosts(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment in which Open MPI starts ranks on them."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and the command ip")
    try:
        ip("link", "add", BRIDGE, "type", "bridge")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no bridge can be made here: {error.stderr.decode().strip()}")
    try:
        ip("addr", "add", f"{HERE}/24", "dev", BRIDGE)
        ip("link", "set", BRIDGE, "up")
        for name, address in HOSTS.items():
            ip("netns", "add", name)
            ip("link", "add", f"{name}0", "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("link", "set", f"{name}0", "master", BRIDGE, "up")
            ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "link", "set", "lo", "up")
        memory = tmp_path / "memory"
        memory.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "none", memory], check=True, timeout=patience(30))
        for name in HOSTS:
            (memory / name).mkdir()
        agent = tmp_path / "agent"
        cases = " ".join(f"{address}) name={name};;" for name, address in HOSTS.items())
        agent.write_text(AGENT.format(cases=cases, down=tmp_path / "down", memory=memory))
        agent.chmod(0o755)
        yield {
            "PRTE_MCA_plm_ssh_agent": str(agent),
            "PRTE_MCA_prte_if_include": NETWORK,
            "OMPI_MCA_btl_tcp_if_include": NETWORK,
        }
    finally:
        remove(tmp_path / "memory")


def test_the_other_host_goes_on(two_hosts: dict[str, str], tmp_path: Path) -> None:
    options = ["--hosts", ",".join(f"{address}:2" for address in HOSTS.values())]
    options += ["--max-restarts", "2", "--checkpoint", str(tmp_path / "saved")]
    options += ["--checkpoint-every", "3"]
    arguments = ["--at", "1:4", "--what", "SIGKILL:host-mxb", "--once", str(tmp_path / "down")]
    outcome = matex_run(
        tmp_path,
        "interrupted.py",
        *arguments,
        ranks=4,
        options=options,
        environment=two_hosts,
    )
    assert outcome.status == 0, outcome.stderr
    summary = outcome.summary
    starts = [e["host"] for e in outcome.events if e["event"] == "start"]
    assert (summary["restarts"], summary["world_size_end"]) == (1, 2), (
        starts,
        summary["faults"],
        outcome.stderr,
    )
    assert sorted(starts[:4]) == ["mxa", "mxa", "mxb", "mxb"]
    assert starts[4:] == ["mxa", "mxa"]
    # The others may go on for some steps before the launcher ends them for the lost daemon.
    (resumed,) = {e["step"] for e in outcome.events if e["event"] == "resumed"}
    written = {e["step"] for e in outcome.events if e["event"] == "checkpoint"}
    assert resumed >= 12
    assert resumed in written
    left = {name: [*(tmp_path / "memory" / name).rglob("*")] for name in HOSTS}
    assert [path.name for path in left["mxb"] if path.name.startswith("sm_segment.mxb.")]
    assert left["mxa"] == []
    print("to the next step:", [record["to_next_step_s"] for record in summary["faults"]])
