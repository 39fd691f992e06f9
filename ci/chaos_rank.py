"""One rank of the ft layer of chaos.py: python ci/chaos_rank.py PLAN.json DIRECTORY

It makes the plan's operations, checks each result, and appends what it did to
DIRECTORY/rank-N.jsonl: a line when it starts, before each fault that strikes it, for each
recovery, at the end of each run and when it has left.
"""

from __future__ import annotations

import faulthandler
import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

import ft

ITEMS = 48  # of work in a step, each to be counted once
STACKS_AFTER_S = 40.0


class Log:
    """Lines of JSON, each one write."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def __call__(self, what: str, **content: Any) -> None:
        os.write(self._file, (json.dumps({"what": what, **content}) + "\n").encode())


class Work:
    """The operations, each with what must come of it."""

    def __init__(self, communicator: ft.Communicator, injector: ft.Injector) -> None:
        self._comm = communicator
        self._faults = injector

    def do(self, kind: str, size: int, number: int) -> tuple[bytes, str]:
        """Make operation *number*; its result, equal on all ranks, and what is wrong with it."""
        if kind != "allreduce":
            self._strike()
        result, wrong = getattr(self, f"_{kind}")(size, number)
        return result, f"operation {number}, {kind} of {size}: {wrong}" if wrong else ""

    def _strike(self) -> None:
        self._faults.at("before-exchange")
        self._faults.during("in-exchange")

    def _allreduce(self, size: int, number: int) -> tuple[bytes, str]:
        received = np.empty(ITEMS + size + 1, np.int64)
        while True:
            send = np.zeros_like(received)
            mine = _items(self._comm.pending, self._comm.world.rank)
            send[mine] = 1
            send[ITEMS:-1] = sum(_value(number, item) for item in mine)
            send[-1] = 1
            self._strike()
            try:
                self._comm.allreduce(
                    send,
                    received,
                    valid=lambda: bool(received[-1] == self._comm.world.size),
                    fence=size % 2 == 0,
                )
            except ft.PeerFailure:
                if not self._comm.recover().finished:
                    continue
            break
        total = sum(_value(number, item) for item in range(ITEMS))
        wrong = ""
        if (received[:ITEMS] != 1).any():
            wrong = f"items counted {received[:ITEMS].tolist()} times, not once each"
        elif (received[ITEMS:-1] != total).any():
            wrong = f"sums {np.unique(received[ITEMS:-1]).tolist()}, not {total}"
        return received[:-1].tobytes(), wrong

    def _broadcast(self, size: int, number: int) -> tuple[bytes, str]:
        buffer = np.full(size, _value(number, self._comm.world.rank))
        self._comm.broadcast(buffer)
        sent = [_value(number, rank) for rank in range(self._comm.initial_size)]
        wrong = "" if (buffer == buffer[0]).all() and buffer[0] in sent else "a torn buffer"
        return buffer.tobytes(), wrong

    def _allgather(self, size: int, number: int) -> tuple[bytes, str]:
        rank = self._comm.world.rank
        gathered = self._comm.allgather(np.full(min(size, 1000), _value(number, rank)))
        right = [(row == _value(number, r)).all() for r, row in zip(*_pair(gathered), strict=True)]
        wrong = "" if all(right) and rank in gathered.ranks else f"rows of {gathered.ranks}"
        return gathered.rows.tobytes(), wrong

    def _barrier(self, size: int, number: int) -> tuple[bytes, str]:
        self._comm.barrier()
        return b"", ""

    def _agree(self, size: int, number: int) -> tuple[bytes, str]:
        agreed = self._comm.agree(number % 2 == 0)
        return bytes([agreed]), "" if agreed == (number % 2 == 0) else f"agreed on {agreed}"


def _pair(gathered: ft.Gathered) -> tuple[tuple[int, ...], np.ndarray]:
    return gathered.ranks, gathered.rows


def _value(number: int, item: int) -> int:
    return (number * 1009 + item * 7919) % 100_003


def _items(pending: ft.Pending, rank: int) -> list[int]:
    """The items that fall to *rank*: its own, and its part of those of the lost."""
    alive = [r for r in pending.expected if r not in pending.lost]
    owners = [pending.expected[item % len(pending.expected)] for item in range(ITEMS)]
    return [
        item
        for item, owner in enumerate(owners)
        if (alive[item % len(alive)] if owner in pending.lost else owner) == rank
    ]


def main() -> None:
    plan = json.loads(Path(sys.argv[1]).read_text())
    faulthandler.dump_traceback_later(STACKS_AFTER_S)
    communicator = ft.Communicator.start()
    rank = communicator.world.rank
    log = Log(Path(sys.argv[2]) / f"rank-{rank}.jsonl")
    maps = Path("/proc/self/maps").read_text().splitlines()
    log("start", segments=sorted({line.split()[-1] for line in maps if "/dev/shm/" in line}))
    ft.on_death(lambda reason: log("death", reason=reason))
    ft.on_death(lambda reason: faulthandler.dump_traceback())
    injector = ft.Injector(
        map(ft.parse_fault, plan["faults"]), rank=rank, before=lambda f: log("fault", fault=f.text)
    )
    dog = ft.Watchdog(
        timeout_s=4.0, stopped_after_s=0.5, neighbours=lambda: communicator.world.neighbours
    )

    def recovered(recovery: ft.Recovery) -> None:
        if recovery.lost:
            lost = [member.rank for member in recovery.lost]
            log("recovered", lost=lost, repair_s=recovery.repair_s, step=injector.step)
            injector.heard("recovered")

    def at_recovery() -> None:
        with dog.busy():
            injector.at("recovery")

    communicator.waiting = dog.waiting
    communicator.recovery_point = at_recovery
    communicator.listeners.append(recovered)
    ft.shield(communicator.leave)
    dog.start()
    work = Work(communicator, injector)
    number = 0
    with ft.shielded(), dog.working():
        for run, operations in enumerate(plan["runs"]):
            digest, problems = hashlib.blake2b(digest_size=8), []
            for kind, size in operations:
                injector.step = number
                injector.at("compute")
                result, wrong = work.do(kind, size, number)
                digest.update(result)
                problems += [wrong] if wrong else []
                injector.at("after-exchange")
                number += 1
                dog.progress()
            log(
                "run", run=run, digest=digest.hexdigest(), wrong=problems,
                world=communicator.world.ranks, done=communicator.done,
            )  # fmt: skip
        injector.step = number
        injector.at("compute")
        injector.during("in-exchange")
        communicator.leave()
    log("end")
    dog.stop()


if __name__ == "__main__":
    main()
