"""Cores and GPU of a rank: pure decisions first, then their effects."""

from __future__ import annotations

import os
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

import ft
from matex.errors import InputError
from matex.exchange.texts import allgather_texts

__all__ = [
    "Cores",
    "Gpu",
    "Neighbour",
    "choose_cores",
    "choose_gpu",
    "cores_of",
    "differing_sets",
    "neighbours",
    "take_cores",
    "take_gpu",
]

_MOST_CORES = 4096
_DIGEST = 8  # bytes

# Environment variables that NumPy's usual BLAS libraries read when they are loaded.
_BLAS_THREADS = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"}


class Neighbour(NamedTuple):
    """A rank of this host and its resources; equal *gpus* mean the same GPUs."""

    rank: int
    cores: frozenset[int]
    gpus: bytes


class Cores(NamedTuple):
    """Number of threads of a rank, and cores to which it is pinned; empty for all."""

    threads: int
    kept_on: tuple[int, ...] = ()


class Gpu(NamedTuple):
    """Number of the GPU that a rank takes, None without any, and a note for the user."""

    number: int | None
    note: str = ""


def choose_cores(
    host: Sequence[Neighbour], rank: int, *, threads: int = 0, working: int | None = None
) -> Cores:
    """Share of *rank* in the cores of its *host*. Pure.

    More threads than cores only slow each other. Ranks that fill the same cores exactly are
    each pinned to their own; ranks that a launcher has bound already share with those whose
    cores overlap theirs.

    Args:
        threads: number of threads asked for; 0, the default, is the rank's share.
        working: number of ranks that work; ranks from this one on are spares. None, the
            default, is for no spares. Spares get as many threads as the others, and no cores
            of their own: it is not known yet whose they will need.
    """
    mine = cores_of(host, rank)
    sharing = [neighbour for neighbour in host if neighbour.cores & mine]
    if working is not None:
        sharing = [neighbour for neighbour in sharing if neighbour.rank < working]
    threads = threads or max(1, len(mine) // max(1, len(sharing)))
    if working is not None and rank >= working:
        return Cores(threads)
    alike = all(neighbour.cores == mine for neighbour in sharing)
    if len(sharing) == 1 or not alike or threads * len(sharing) != len(mine):
        return Cores(threads)
    first = [neighbour.rank for neighbour in sharing].index(rank) * threads
    return Cores(threads, tuple(sorted(mine)[first : first + threads]))


def cores_of(host: Sequence[Neighbour], rank: int) -> frozenset[int]:
    """Cores of its *host* that *rank* may use, alone or with other ranks. Pure."""
    return next(neighbour.cores for neighbour in host if neighbour.rank == rank)


def choose_gpu(gpus: int, host: Sequence[Neighbour], rank: int) -> Gpu:
    """Choose the GPU of *rank* among the *gpus* of its *host*. Pure.

    Ranks that see the same GPUs take turns; a launcher may have given each rank its own.
    """
    if gpus == 0:
        return Gpu(None)
    seen = next(neighbour.gpus for neighbour in host if neighbour.rank == rank)
    sharing = [neighbour.rank for neighbour in host if neighbour.gpus == seen]
    note = ""
    if len(sharing) > gpus:
        note = (
            f"{len(sharing)} ranks of a host share its {gpus} GPU{'s' * (gpus > 1)}: "
            "a rank for each is faster"
        )
    elif len(sharing) < gpus:
        note = (
            f"{gpus - len(sharing)} of a host's {gpus} GPUs stay idle: "
            "a rank uses one, so start as many ranks"
        )
    return Gpu(sharing.index(rank) % gpus, note)


def neighbours(communicator: ft.Communicator, visible_gpus: str) -> list[Neighbour]:
    """Ranks of this host, including this one, in order; collective.

    Args:
        visible_gpus: GPUs that this process may use, as named in the environment.
    """
    cores = np.zeros(_MOST_CORES, np.uint8)
    cores[sorted(os.sched_getaffinity(0))] = 1
    gpus = np.frombuffer(blake2b(visible_gpus.encode(), digest_size=_DIGEST).digest(), np.uint8)
    gathered = communicator.allgather(np.concatenate([np.packbits(cores), gpus]))
    world = communicator.world
    here = {member.rank for member in (world.me, *world.neighbours)}
    return [
        Neighbour(
            rank,
            frozenset(np.flatnonzero(np.unpackbits(row[:-_DIGEST])).tolist()),
            row[-_DIGEST:].tobytes(),
        )
        for rank, row in zip(gathered.ranks, gathered.rows, strict=True)
        if rank in here
    ]


def differing_sets(communicator: ft.Communicator, mine: str) -> list[str]:
    """Instruction sets of the ranks, if they differ; collective.

    Args:
        communicator: ranks of the run.
        mine: name of this rank's, of at most 16 letters.
    """
    found = sorted(set(allgather_texts(communicator, mine, 16).values()))
    return found if len(found) > 1 else []


def take_cores(chosen: Cores, *, asked_for: bool, operations: int = 1) -> None:
    """Pin this process to its cores, and limit the threads of libraries. Local.

    Called before TensorFlow makes its threads; NumPy's BLAS, which is loaded by then and has seen
    all cores of the host, is adjusted. Thread settings in the user's environment take precedence,
    unless threads were *asked_for* as an option.

    Args:
        operations: number of operations of a graph that may run at once. With one thread TensorFlow
            computes the gradients of weights when all of those of inputs are there; with two the
            first can leave for other hosts while the others are computed.
    """
    if chosen.kept_on:
        os.sched_setaffinity(0, chosen.kept_on)
    if asked_for or not _BLAS_THREADS & os.environ.keys():
        threadpool_limits(chosen.threads, user_api="blas")
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TF_NUM_INTRAOP_THREADS"):
        if asked_for:
            os.environ[name] = str(chosen.threads)
        else:
            os.environ.setdefault(name, str(chosen.threads))
    os.environ.setdefault("TF_NUM_INTEROP_THREADS", str(operations))


def take_gpu(chosen: Gpu, config: Any) -> None:
    """Restrict TensorFlow to this GPU, with memory allocated on demand. Local.

    Args:
        config: ``tf.config``.

    Raises:
        InputError: TensorFlow already uses its devices.
    """
    if chosen.number is None:
        return
    gpu = config.list_physical_devices("GPU")[chosen.number]
    try:
        config.set_visible_devices(gpu, "GPU")
        config.experimental.set_memory_growth(gpu, True)
    except RuntimeError as error:
        raise InputError(
            "each rank takes its own GPU before TensorFlow uses one: "
            f"call matex.init() first in the script. Received: {error}"
        ) from None
