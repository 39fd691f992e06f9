"""Decision, inside a repair, whether the ranks that are present may go on.

Functions that take a new communicator are collective over it. Rows carry a seal, because when a
rank dies meanwhile MPI may report success and leave zeros.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from ft import mpi, sockets
from ft.process_end import fail_stop
from ft.quorum import Arbiter, NetworkSplit, Ruling, has_ended
from ft.views import SEAL
from ft.world import Member, World

__all__ = ["end_unless_only_world", "must_be_sealed", "other_hosts"]

# A process that is about to end may first write a core file.
_DYING_S = 3.0
_ANSWER_BYTES = 512


def end_unless_only_world(
    new: Any,
    world: World,
    present: tuple[int, ...],
    arbiter: Arbiter,
    *,
    kept: Container[tuple[str, str]] = (),
) -> None:
    """Return if the ranks may go on without the missing ranks; else end this process.

    Ranks that go on shut their connections to the hosts of missing ranks, which may come back:
    their failure reports must not reach this world any more. Connections stay open if all ranks of
    the host have ended, because cold spares there may take their places.

    Args:
        new: the repaired communicator, an ``mpi4py.MPI.Comm``.
        world: last world that all ranks knew.
        present: original ranks of the processes in *new*, in its order.
        arbiter: function called by the first present rank if the ranks cannot decide by themselves.
        kept: machines that stay in use without ranks, so that the end of their ranks must be
            determined; none by default, equal on all ranks.
    """
    missing = tuple(member for member in world.everyone if member.rank not in present)
    came = tuple(member for member in world.everyone if member.rank in present)
    split = NetworkSplit(present=came, spread=world.spread, unknown=missing)
    if not split.is_decided or any(member.machine in kept for member in missing):
        dead = _ended(new, world.me, missing)
        missing = tuple(member for member in missing if member not in dead)
        split = replace(split, dead=dead, unknown=missing)
    if not split.is_decided or any(member.machine in kept for member in missing):
        ruling = _answer(new, split, arbiter, asks=present[0] == world.rank)
        if ruling.refusal and not split.is_decided:
            fail_stop(f"{split.text}, and may not go on without them: {ruling.refusal}")
        missing = tuple(member for member in missing if member.rank not in ruling.ended)
    sockets.shut(_addresses(missing) - _addresses(came))


def other_hosts(world: World) -> set[str]:
    """Addresses of the other hosts of *world*, without hosts that were left behind. Local."""
    return _addresses(world.everyone) - set(world.me.addresses) - sockets.left_behind()


def _addresses(members: Iterable[Member]) -> set[str]:
    return {address for member in members for address in member.addresses}


def must_be_sealed(seals: np.ndarray) -> None:
    """Raise if a seal is missing: MPI has reported a rank's death as success, with zeros.

    Raises:
        mpi4py.MPI.Exception: an element of *seals* is not the seal.
    """
    if not (seals == SEAL).all():
        MPI = mpi.load()
        raise MPI.Exception(MPI.ERR_OTHER)


def _ended(new: Any, me: Member, missing: tuple[Member, ...]) -> tuple[Member, ...]:
    """Members of *missing* whose end a rank on their host has seen; collective over *new*."""
    mine = [n for n, member in enumerate(missing) if member.shares_ids_with(me)]
    row = np.zeros(len(missing) + 1, np.int64)
    row[mine] = has_ended([missing[n] for n in mine], within_s=_DYING_S)
    row[-1] = SEAL
    rows = np.zeros((new.Get_size(), row.size), np.int64)
    new.Allgather(row, rows)
    must_be_sealed(rows[:, -1])
    return tuple(member for n, member in enumerate(missing) if rows[:, n].any())


def _ruling_on_heard(split: NetworkSplit, arbiter: Arbiter) -> Ruling:
    """Ruling of *arbiter* about the members on hosts that have not fallen silent."""
    gone = sockets.left_behind()
    heard = tuple(member for member in split.unknown if gone.isdisjoint(member.addresses))
    silent = tuple(member for member in split.unknown if member not in heard)
    return arbiter(replace(split, unknown=heard, silent=silent)) if heard else Ruling()


def _answer(new: Any, split: NetworkSplit, arbiter: Arbiter, *, asks: bool) -> Ruling:
    """Ruling of the arbiter, which the first rank asks; equal on all ranks.

    If the present ranks may go on anyway, the arbiter is asked about hosts that have not fallen
    silent only: it would wait for the others.
    """
    unknown = [member.rank for member in split.unknown]
    text = np.zeros(_ANSWER_BYTES, np.uint8)
    numbers = np.zeros(len(unknown) + 1, np.int64)  # whether each has ended, and the seal
    if asks:
        ruling = arbiter(split) if not split.is_decided else _ruling_on_heard(split, arbiter)
        encoded = ruling.refusal.encode()[:_ANSWER_BYTES]
        text[: len(encoded)] = np.frombuffer(encoded, np.uint8)
        numbers[:-1] = [rank in ruling.ended for rank in unknown]
        numbers[-1] = SEAL
    answer = np.concatenate([text, numbers.view(np.uint8)])
    new.Bcast(answer, root=0)
    text, numbers = answer[:_ANSWER_BYTES], answer[_ANSWER_BYTES:].view(np.int64)
    must_be_sealed(numbers[-1:])
    return Ruling(
        text.tobytes().rstrip(b"\0").decode(errors="replace"),
        tuple(rank for rank, ended in zip(unknown, numbers[:-1], strict=True) if ended),
    )
