"""Vectors exchanged with single peers, between numbered operations."""

from __future__ import annotations

import numpy as np
import pytest

import ft


@pytest.mark.parametrize("size", [0, 3, 300_000], ids=["empty", "eager", "rendezvous"])
def test_each_gets_what_its_source_sent(comm: ft.Communicator, size: int) -> None:
    ranks, place = comm.world.ranks, comm.world.place
    if len(ranks) == 1:
        pytest.skip("there is nobody to swap with")
    for number, shift in enumerate(s for s in (1, 2, 3) if s < len(ranks)):
        to, source = ranks[(place + shift) % len(ranks)], ranks[place - shift]
        send = np.full(size, 10 * number + comm.world.rank, np.float32)
        swap = ft.Swap(comm, send, to=to, source=source, number=number)
        comm.barrier()  # a numbered operation may come between
        got = swap.wait()
        assert got is not None
        np.testing.assert_array_equal(got, np.full(size, 10 * number + source))


def test_a_long_vector_goes_in_several_messages(
    comm: ft.Communicator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ft.pieces._MOST_BYTES", 100_000)
    ranks, place = comm.world.ranks, comm.world.place
    if len(ranks) == 1:
        pytest.skip("there is nobody to swap with")
    to, source = ranks[(place + 1) % len(ranks)], ranks[place - 1]
    vector = np.arange(300_001, dtype=np.float32)
    got = ft.Swap(comm, vector + comm.world.rank, to=to, source=source, number=0).wait()
    np.testing.assert_array_equal(got, vector + source)
    with pytest.raises(ft.UsageError, match="contiguous"):
        ft.Sending(comm, vector[:300_000].reshape(3, -1).T, to=to, number=1)


def test_channels_do_not_meet(comm: ft.Communicator) -> None:
    """The last sent of two messages with one number is received first."""
    ranks, place = comm.world.ranks, comm.world.place
    if len(ranks) == 1:
        pytest.skip("there is nobody to send to")
    to, source = ranks[(place + 1) % len(ranks)], ranks[place - 1]
    number = (1 << 14) + 5  # beyond the tags of a channel
    sent = [
        ft.Sending(comm, np.array([float(channel)]), to=to, number=number, channel=channel)
        for channel in (0, 1)
    ]
    for channel in (1, 0):
        into = np.empty(1)
        got = ft.Receiving(comm, into, source=source, number=number, channel=channel).wait()
        assert got is not None
        assert got[0] == channel
    assert all(sending.wait() for sending in sent)
    with pytest.raises(ft.UsageError, match="Received: 2"):
        ft.Sending(comm, np.zeros(1), to=to, number=0, channel=2)


def test_only_with_living_others(comm: ft.Communicator) -> None:
    rank = comm.world.rank
    with pytest.raises(ft.UsageError, match=f"Received: rank {rank}"):
        ft.Swap(comm, np.zeros(1), to=rank, source=rank, number=0)
