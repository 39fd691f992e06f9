"""Inside a repair: those who came find out whether they are the ones who may go on.

Functions that take a new communicator are collective over it. Rows carry a seal: when a rank dies
on the way, MPI may report success and leave zeros.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from ft import mpi, sockets
from ft.exit_guard import fail_stop
from ft.quorum import Arbiter, Parting, Ruling, has_ended
from ft.views import SEAL
from ft.world import Member, World

__all__ = ["must_be_sealed", "other_hosts", "stay_one"]

# A process that is about to end may write its memory to disk first.
_DYING_S = 3.0
_ANSWER_BYTES = 512


def stay_one(
    new: Any,
    world: World,
    present: tuple[int, ...],
    arbiter: Arbiter,
    *,
    kept: Container[str] = (),
) -> None:
    """Return on ranks that may go on without the others; the others end themselves.

    Those who go on shut their connections to the hosts that no longer take part, which may
    return: what their ranks believe must not reach this world any more. They keep them where all
    ranks of the host have ended: processes that wait there may take their places.

    Args:
        new: the repaired communicator, an ``mpi4py.MPI.Comm``.
        world: the last one that all ranks knew.
        present: the original ranks in *new*, in its order.
        arbiter: function asked by the first of them, where they cannot know it by themselves.
        kept: hosts that are wanted even without ranks, so that it is to be found out whether
            these have ended; none by default, and equal on all ranks.
    """
    missing = tuple(member for member in world.everyone if member.rank not in present)
    came = tuple(member for member in world.everyone if member.rank in present)
    parting = Parting(present=came, spread=world.spread, unknown=missing)
    if not parting.is_decided or any(member.host in kept for member in missing):
        dead = _ended(new, world.me, missing)
        missing = tuple(member for member in missing if member not in dead)
        parting = replace(parting, dead=dead, unknown=missing)
    if not parting.is_decided or any(member.host in kept for member in missing):
        ruling = _answer(new, parting, arbiter, asks=present[0] == world.rank)
        if ruling.refusal and not parting.is_decided:
            fail_stop(f"{parting.text}, and may not go on without them: {ruling.refusal}")
        missing = tuple(member for member in missing if member.rank not in ruling.ended)
    sockets.shut(_addresses(missing) - _addresses(came))


def other_hosts(world: World) -> set[str]:
    """The addresses of the hosts of *world* but this one, without those left behind. Local."""
    return _addresses(world.everyone) - set(world.me.addresses) - sockets.left_behind()


def _addresses(members: Iterable[Member]) -> set[str]:
    return {address for member in members for address in member.addresses}


def must_be_sealed(seals: np.ndarray) -> None:
    """Take zeros for what they are: the death of a rank, reported as success.

    Raises:
        mpi4py.MPI.Exception: one of *seals* is none.
    """
    if not (seals == SEAL).all():
        MPI = mpi.load()
        raise MPI.Exception(MPI.ERR_OTHER)


def _ended(new: Any, me: Member, missing: tuple[Member, ...]) -> tuple[Member, ...]:
    """The members of *missing* whose end a rank on their host has seen."""
    mine = [n for n, m in enumerate(missing) if (m.host, m.space) == (me.host, me.space)]
    row = np.zeros(len(missing) + 1, np.int64)
    row[mine] = has_ended([missing[n] for n in mine], within_s=_DYING_S)
    row[-1] = SEAL
    rows = np.zeros((new.Get_size(), row.size), np.int64)
    new.Allgather(row, rows)
    must_be_sealed(rows[:, -1])
    return tuple(member for n, member in enumerate(missing) if rows[:, n].any())


def _ruling_on_heard(parting: Parting, arbiter: Arbiter) -> Ruling:
    """The ruling of *arbiter* about members on hosts that this rank still hears."""
    gone = sockets.left_behind()
    heard = tuple(member for member in parting.unknown if gone.isdisjoint(member.addresses))
    return arbiter(replace(parting, unknown=heard)) if heard else Ruling()


def _answer(new: Any, parting: Parting, arbiter: Arbiter, *, asks: bool) -> Ruling:
    """The answer of the arbiter, whom the first rank asks; the same on all ranks.

    Where those present may go on anyway, it is asked of hosts alone that have not fallen silent: it
    would wait for the others.
    """
    unknown = [member.rank for member in parting.unknown]
    text = np.zeros(_ANSWER_BYTES, np.uint8)
    numbers = np.zeros(len(unknown) + 1, np.int64)  # whether each has ended, and the seal
    if asks:
        ruling = arbiter(parting) if not parting.is_decided else _ruling_on_heard(parting, arbiter)
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
