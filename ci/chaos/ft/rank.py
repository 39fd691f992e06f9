"""One rank of the ft layer: python -m ci.chaos.ft.rank PLAN.json DIRECTORY

It makes the plan's operations, checks each result, and appends what it did to
DIRECTORY/rank-N.jsonl: a line when it starts, before each fault that strikes it, for each
recovery, when it takes the place of a dead rank, at the end of each run and when it has left.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ft
from ci.chaos.ft.membership import Places
from ci.chaos.ft.work import Work

STACKS_AFTER_S = 90.0
LEAST_S, MOST_S = 4.0, 20.0  # what counts as a hang


class Log:
    """Lines of JSON, each one write."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def __call__(self, what: str, **content: Any) -> None:
        os.write(self._file, (json.dumps({"what": what, **content}) + "\n").encode())


@dataclass(frozen=True, kw_only=True)
class Begun:
    """The tools of a rank that has met the others."""

    plan: dict[str, Any]
    communicator: ft.Communicator
    injector: ft.Injector
    dog: ft.Watchdog
    log: Log


def begin(in_recovery: Callable[[ft.Injector], None]) -> Begun:
    """Meet the others, with faults and recoveries written down; by the words of the command line.

    Args:
        in_recovery: function that is called inside each repair, where this rank does not wait for
            others.
    """
    plan = json.loads(Path(sys.argv[1]).read_text())
    faulthandler.dump_traceback_later(STACKS_AFTER_S)
    started = time.monotonic()
    communicator = ft.Communicator.start()
    # Where meeting took long the machine is busy, and whoever is late is not stuck.
    timeout_s = min(MOST_S, max(LEAST_S, time.monotonic() - started))
    rank = communicator.world.rank
    log = Log(Path(sys.argv[2]) / f"rank-{rank}.jsonl")
    maps = Path("/proc/self/maps").read_text().splitlines()
    log("start", segments=sorted({line.split()[-1] for line in maps if "/dev/shm/" in line}))
    ft.on_fail_stop(lambda reason: log("death", reason=reason))
    ft.on_fail_stop(lambda reason: faulthandler.dump_traceback())

    def note(fault: ft.Fault) -> None:
        log("fault", fault=fault.text, step=injector.step)

    injector = ft.Injector(map(ft.parse_fault, plan["faults"]), rank=rank, before=note)
    dog = ft.Watchdog(
        timeout_s=timeout_s, stopped_after_s=0.5, neighbours=lambda: communicator.world.neighbours
    )

    class Chaos(ft.Hooks):
        def waiting(self) -> AbstractContextManager[object]:
            return dog.waiting()

        def recovery_point(self) -> None:
            with dog.busy():
                in_recovery(injector)

        def recovered(self, recovery: ft.Recovery) -> None:
            if recovery.lost:
                log(
                    "recovered", lost=[member.rank for member in recovery.lost],
                    step=injector.step, repair_s=recovery.repair_s,
                    generation=recovery.after.generation,
                )  # fmt: skip
                injector.heard("recovered")

    communicator.attach(Chaos())
    ft.shield(communicator.leave)
    dog.start()
    return Begun(plan=plan, communicator=communicator, injector=injector, dog=dog, log=log)


def main() -> None:
    begun = begin(lambda injector: places.in_recovery())
    plan, communicator, injector = begun.plan, begun.communicator, begun.injector
    dog, log = begun.dog, begun.log
    places = Places(communicator, injector, dog, path=Path(sys.argv[2]) / "begun", log=log)
    work = Work(communicator, injector, welcome=places.welcome)
    with ft.shielded(), dog.working():
        end = 0
        for run, operations in enumerate(plan["runs"]):
            first, end = end, end + len(operations)
            injector.step = places.number
            places.digest = 0
            faulthandler.dump_traceback_later(STACKS_AFTER_S)  # from here on
            problems = []
            working = plan["working"][run]
            if working:
                places.set_aside(working)
            while places.number < end:
                places.welcome()
                places.begin()
                number = places.number
                result, wrong = work.do(operations[number - first], number)
                problems += [wrong] if wrong else []
                places.done(result)
            if working:
                places.call_back(closing=run == len(plan["runs"]) - 1)
            log(
                "run", run=run, digest=places.digest, wrong=problems,
                world=communicator.world.ranks, done=communicator.done,
            )  # fmt: skip
        injector.step = end
        injector.at("compute")
        injector.during("in-exchange")
        communicator.leave()
    log("end")
    dog.stop()


if __name__ == "__main__":
    main()
