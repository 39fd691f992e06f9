"""The encoding of members in bytes: nothing is lost, and zeros are nobody."""

from __future__ import annotations

from uuid import UUID

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ft.wire import decode_member, encode_member, rank_tag
from ft.world import Member

hosts = st.from_regex(r"[a-z0-9][a-z0-9.-]{0,80}", fullmatch=True)
addresses = st.lists(st.ip_addresses(v=4).filter(int).map(str), max_size=16).map(tuple)


@given(st.integers(0, 10**6), hosts, st.integers(1, 2**31), st.uuids(), addresses)
def test_a_member_is_read_from_its_card(
    rank: int, host: str, pid: int, boot: UUID, addresses: tuple[str, ...]
) -> None:
    member = Member(
        rank=rank, host=host, pid=pid, space=pid // 2, boot=str(boot), started=pid * 3,
        addresses=addresses,
    )  # fmt: skip
    content = encode_member(member)
    assert decode_member(rank, content) == member
    assert content.dtype == np.uint8


def test_cards_are_of_one_size_whatever_the_host_is_called() -> None:
    sizes = {
        encode_member(Member(rank=0, host=host, pid=1)).size
        for host in ("", "a", "ä" * 90, "x" * 999)
    }
    assert len(sizes) == 1


def test_labels_tell_ranks_apart_and_from_bytes_that_never_came() -> None:
    labels = {rank_tag(rank).tobytes() for rank in range(1000)}
    assert len(labels) == 1000
    assert {len(one) for one in labels} == {rank_tag(0).size}
    assert bytes(rank_tag(0).size) not in labels
