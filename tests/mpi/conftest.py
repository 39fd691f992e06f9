"""One communicator of all ranks for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from mpi4py import MPI

import ft


@pytest.fixture(scope="session")
def world() -> ft.World:
    """All ranks, as they met."""
    return ft.Communicator.start().world


@pytest.fixture
def comm(world: ft.World) -> Iterator[ft.Communicator]:
    """A communicator of its own, so that a test that revokes it leaves nothing to the next."""
    communicator = ft.Communicator(MPI.COMM_WORLD.Dup(), world)
    together(communicator)
    yield communicator
    assert communicator.failure is None
    together(communicator)


def together(communicator: ft.Communicator) -> None:
    """Wait for all, in a call that no revoke by a faster rank can end."""
    communicator.handle.Agree(1)
