"""One rank of the loop layer: python -m ci.chaos.loop.rank PLAN.json DIRECTORY

It runs the loop that ft documents, with one result buffer for all operations, and looks at every
sum before it goes on.
"""

from __future__ import annotations

import faulthandler
import hashlib

import numpy as np

import ft
from ci.chaos.ft.rank import STACKS_AFTER_S, begin

__all__: list[str] = []


def wrong(number: int, total: np.ndarray, ranks: tuple[int, ...], start: int) -> str:
    """A sentence about what is wrong with the sum of an operation; "" for nothing.

    Args:
        total: the sum of the members' vectors: a one at each one's place, and then its values.
        ranks: the members after the operation, who must all be in it.
        start: the number of ranks at the start.
    """
    counts = total[:start]
    there = np.flatnonzero(counts == 1)
    if there.size + np.count_nonzero(counts == 0) != start:
        return f"operation {number}: ranks counted {counts.tolist()} times"
    if not set(ranks) <= set(there.tolist()):
        return f"operation {number}: members {ranks}, and a sum of {there.tolist()}"
    wanted = sum(value(number, int(rank)) for rank in there)
    if (total[start:] != wanted).any():
        return f"operation {number}: sums {np.unique(total[start:])[:9].tolist()}, not {wanted}"
    return ""


def value(number: int, rank: int) -> float:
    """The value that *rank* adds in operation *number*."""
    return float((number * 1009 + rank * 7919) % 100_003)


def main() -> None:
    begun = begin(lambda injector: injector.at("recovery"))
    comm, injector, start = begun.communicator, begun.injector, begun.communicator.initial_size
    operations = begun.plan["runs"][0]
    mine = np.zeros(start + operations[0][1])
    total = np.empty_like(mine)
    digest, problems = hashlib.blake2b(digest_size=8), []
    faulthandler.dump_traceback_later(STACKS_AFTER_S)
    with ft.shielded(), begun.dog.working():
        number = 0
        while number < len(operations):
            injector.step = number
            injector.at("compute")
            mine[comm.world.rank] = 1
            mine[start:] = value(number, comm.world.rank)
            injector.at("before-exchange")
            injector.during("in-exchange")
            try:
                comm.allreduce(mine, total)
            except ft.PeerFailure:
                if not comm.recover().finished:
                    continue
            problem = wrong(number, total, comm.world.ranks, start)
            problems += [problem] if problem else []
            digest.update(total.tobytes())
            injector.at("after-exchange")
            begun.dog.progress()
            number += 1
        begun.log(
            "run", run=0, digest=digest.hexdigest(), wrong=problems,
            world=comm.world.ranks, done=comm.done,
        )  # fmt: skip
        comm.leave()
    begun.log("end")
    begun.dog.stop()


if __name__ == "__main__":
    main()
