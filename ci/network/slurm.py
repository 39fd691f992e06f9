"""A cluster of Slurm's own programs, its nodes network namespaces of this machine.

    python -m ci.network.slurm --nodes 3 --cores 2 -- sbatch --wait job.sh

The controller runs on the head, and a slurmd on each node, which has a name, an address and a
host name of its own; all see one file system, and their links can be cut (emulated.py).
The command runs on the head with the cluster in its environment. All of it is gone afterwards:
jobs are cancelled, daemons ended by process id, files in a temporary directory.

Needs root, the command ip, and Debian's packages slurmctld, slurmd, slurm-client and munge.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from ci.network.emulated import Emulated, emulated, end_tidily, with_command
from ci.network.switch import Link
from ci.patience import patience

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "squeue", "munged", "ip")
_LINK = Link(rate_bit_s=1e9, delay_s=1e-4)
_CONTROLLER_PORT, _NODE_PORT = 16817, 16818
_START_S = patience(20)
_LOOK_S = 0.2
_LEAVE_S = 10.0

_CONFIGURATION = """\
ClusterName=matex
SlurmctldHost=head(10.77.42.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=0
ReturnToService=2
SlurmdTimeout={lost_s}
KillWait=5
InactiveLimit=0
MinJobAge=600
JobRequeue=1
MailProg=/bin/true
SlurmdParameters=config_overrides
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
"""


def missing() -> list[str]:
    """The programs that are needed and not there."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    return [name for name in PROGRAMS if shutil.which(name, path=path) is None]


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A cluster that is up.

    Args:
        nodes: names of its nodes.
        environment: variables with which Slurm's commands, and jobs, find it.
        network: network that cuts links; the head's port is 0, that of the first node 1.
        folder: directory of its daemons' files.
    """

    nodes: tuple[str, ...]
    environment: dict[str, str]
    network: Emulated
    folder: Path

    def run(
        self,
        *words: str,
        timeout_s: float = 60,
        directory: Path | None = None,
        quiet: bool = False,
    ) -> str:
        """Run a command on the head; its output.

        Args:
            quiet: whether its error output is left out.

        Raises:
            subprocess.CalledProcessError: it failed.
        """
        done = subprocess.run(
            [*self.network.head, *words],
            env=self.environment,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if quiet else None,
            check=True,
            text=True,
            timeout=patience(timeout_s),
        )
        return done.stdout

    def sever(self, node: int | None) -> None:
        """Cut the links of the node of that number, from 1; None joins all again."""
        every = range(len(self.nodes) + 1)
        pairs = [] if node is None else [(node, other) for other in every if other != node]
        self.network.switch.cut = frozenset([*pairs, *((b, a) for a, b in pairs)])

    def node_state(self, node: int) -> str:
        """The state of the node of that number, from 1, as ``idle`` or ``down*``."""
        name = self.nodes[node - 1]
        return self.run("sinfo", "--noheader", "--Node", "--format=%T", f"--nodes={name}").strip()

    def wait_until_idle(self, timeout_s: float, *, nodes: int | None = None) -> None:
        """Until so many nodes are idle, all by default.

        Raises:
            TimeoutError: they are not after *timeout_s*; with the end of what the daemons said.
        """
        deadline = time.monotonic() + timeout_s
        states: list[str] = []
        while time.monotonic() < deadline:
            with contextlib.suppress(subprocess.CalledProcessError):  # no controller yet
                states = self.run(
                    "sinfo", "--noheader", "--Node", "--format=%T", quiet=True
                ).split()
                if states.count("idle") == (len(self.nodes) if nodes is None else nodes):
                    return
            time.sleep(_LOOK_S)
        raise TimeoutError(f"nodes are {states} after {timeout_s:g} s\n{self.logs}")

    @property
    def logs(self) -> str:
        """The end of what each daemon said."""
        return "\n".join(path.read_text()[-2000:] for path in sorted(self.folder.glob("*.log")))

    def cancel_all(self) -> None:
        """No job outlives the cluster: the steps of one would go on without their daemon."""
        with contextlib.suppress(subprocess.CalledProcessError, subprocess.TimeoutExpired):
            self.run("scancel", "--full", "--user=root", timeout_s=_LEAVE_S)

    def state(self, job: str) -> str:
        """A job's, as ``RUNNING``; of an array's job the number and its index, ``17_2``."""
        return self.run(
            "squeue", "--noheader", "--states=all", "--format=%T", f"--jobs={job}"
        ).strip()

    def wait(self, job: str, done: Callable[[str], bool], timeout_s: float) -> str:
        """The job's state once *done* says so.

        Raises:
            TimeoutError: it has not after *timeout_s*.
        """
        deadline = time.monotonic() + timeout_s
        while not done(state := self.state(job)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"job {job} is {state} after {timeout_s:g} s")
            time.sleep(_LOOK_S)
        return state


@contextlib.contextmanager
def cluster(nodes: int, *, cores: int = 2, lost_s: int = 10, domain: str = "") -> Iterator[Cluster]:
    """A cluster of so many nodes, gone afterwards.

    Args:
        cores: number of cores that Slurm believes each node to have.
        lost_s: seconds of silence after which a node is down.
        domain: end of the name that a node has itself, after Slurm's name of it; none by default.

    Raises:
        OSError: no network can be made, or a program is missing.
        TimeoutError: the nodes do not come up.
    """
    names = tuple(f"host{number}" for number in range(1, nodes + 1))
    with contextlib.ExitStack() as undo:
        folder = Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="slurm-")))
        folder.chmod(0o755)
        network = undo.enter_context(emulated(nodes, _LINK))
        environment = {
            **os.environ,
            "SLURM_CONF": str(folder / "slurm.conf"),
            "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin",
        }
        _write_configuration(folder, network.addresses, names, cores=cores, lost_s=lost_s)
        found = Cluster(nodes=names, environment=environment, network=network, folder=folder)
        undo.enter_context(_munge(folder, environment))
        log = undo.enter_context((folder / "daemons.log").open("w"))
        commands = [["slurmctld", "-D", "-c"]]
        commands += [["slurmd", "-D", "-c", "-N", name] for name in names]
        places = [network.head, *network.inside]
        for place, command, host in zip(places, commands, ("head", *names), strict=True):
            words = [
                *place,
                "unshare",
                "--uts",
                "sh",
                "-c",
                f'hostname {host}{domain}; exec "$@"',
                "sh",
            ]
            undo.enter_context(_daemon([*words, *command], environment, log))
        undo.callback(found.cancel_all)
        found.wait_until_idle(_START_S)
        yield found


def _write_configuration(
    folder: Path, addresses: Sequence[str], names: Sequence[str], *, cores: int, lost_s: int
) -> None:
    nodes = "\n".join(
        f"NodeName={name} NodeHostname={name} NodeAddr={address} CPUs={cores} State=UNKNOWN"
        for name, address in zip(names, addresses, strict=True)
    )
    text = _CONFIGURATION.format(
        controller_port=_CONTROLLER_PORT,
        node_port=_NODE_PORT,
        folder=folder,
        lost_s=lost_s,
        nodes=nodes,
    )
    (folder / "slurm.conf").write_text(text)
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
    (folder / "state").mkdir()


@contextlib.contextmanager
def _munge(folder: Path, environment: dict[str, str]) -> Iterator[None]:
    """The daemon that vouches for who sends a message, for all nodes: they share the files."""
    place = folder / "munge"
    place.mkdir(mode=0o755)
    (place / "key").write_bytes(os.urandom(128))
    (place / "key").chmod(0o600)
    command = ["munged", "--foreground", "--force"]
    command += [f"--{name}-file={place / name}" for name in ("key", "pid", "log", "seed")]
    command.append(f"--socket={place / 'socket'}")
    with (place / "output").open("w") as log, _daemon(command, environment, log):
        yield


@contextlib.contextmanager
def _daemon(command: Sequence[str], environment: dict[str, str], log: TextIO) -> Iterator[None]:
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
    )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(_LEAVE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2, help="that Slurm believes each to have")
    arguments, words = with_command(parser)
    if names := missing():
        parser.error(f"programs that are not there: {', '.join(names)}")
    end_tidily()
    with cluster(arguments.nodes, cores=arguments.cores) as found:
        command = [*found.network.head, *words]
        return subprocess.run(command, env=found.environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
