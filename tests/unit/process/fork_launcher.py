"""The launcher of test_fork_server: it starts newcomers, and prints how they went as JSON."""

import json
import os
import select
import signal
import subprocess
from typing import Any

from matex.run import fork_client

NEWCOMER = ["-m", "tests.unit.process.newcomer"]


def start(*arguments: str, **given: str) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    """A newcomer, and what it says of itself."""
    command = fork_client.command([*NEWCOMER, *arguments])
    environment = {**os.environ, **given}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())


def has_ended(process: int) -> bool:
    """Whether the process ends, which is no child of this one."""
    try:
        file = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    return bool(select.select([file], [], [], 30)[0])


def main() -> None:
    """Start newcomers one after the other, end some by signals, and one with its server."""
    first, of_first = start("ends", "3")
    found: dict[str, Any] = {"first": {**of_first, "status": first.wait()}}
    core = min(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    second, of_second = start("ends", "0", GIVEN="as it came")
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
    print(json.dumps(found))


if __name__ == "__main__":
    main()
