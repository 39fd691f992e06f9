"""The launcher of test_fork_server: it starts newcomers, and prints how they went as JSON."""

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from matex.fork_server import client

NEWCOMER = ["-m", "tests.unit.fork_server.newcomer"]


def start(
    *arguments: str, directory: str | None = None, **given: str
) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    """A newcomer, and what it says of itself."""
    command = client.command([*NEWCOMER, *arguments])
    environment = {**os.environ, **given}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment, cwd=directory
    )
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())


def first_forked(*arguments: str) -> dict[str, Any]:
    """The words of the first newcomer that is forked; those before it come while it imports."""
    while True:
        process, said = start(*arguments)
        said["status"] = process.wait()
        if said["server"] != os.getpid():
            return said
        time.sleep(0.1)


def servers() -> list[int]:
    """The fork servers that were started for this process, by their process ids.

    A process that one of them starts has its command line until it executes its own.
    """
    mine = f"\0{os.getpid()}\0".encode()
    parents = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes()
            if b"matex.process.forked_rank" in words and mine in words:
                status = (process / "stat").read_text().rpartition(") ")[2]
                parents[int(process.name)] = int(status.split()[1])
    return [number for number, parent in parents.items() if parent not in parents]


def has_ended(process: int) -> bool:
    """Whether the process ends, which is no child of this one."""
    try:
        file = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    return bool(select.select([file], [], [], 30)[0])


def main() -> None:
    """Start newcomers one after the other, end some by signals, and one with its server."""
    alone, of_alone = start("ends", "3")
    found: dict[str, Any] = {"alone": {**of_alone, "status": alone.wait(), "own": os.getpid()}}
    found["first"] = first_forked("ends", "3")
    core = min(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    given = {"GIVEN": "as it came", "TMPDIR": "/dev/shm"}
    second, of_second = start("ends", "0", directory="/", **given)
    found["second"] = {**of_second, "status": second.wait(), "core": core}
    for name, number in (("told", signal.SIGTERM), ("killed", signal.SIGKILL)):
        process, said = start("waits")
        process.send_signal(number)
        status = process.wait()
        found[name] = {**said, "status": status, "ended": has_ended(said["process"])}
    process, said = start("waits")
    os.kill(said["process"], signal.SIGABRT)
    found["aborted"] = {**said, "status": process.wait()}
    os.kill(said["server"], signal.SIGKILL)
    assert has_ended(said["server"])
    last, of_last = start("ends", "0")
    found["last"] = {**of_last, "status": last.wait()}
    found["servers"] = servers()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
