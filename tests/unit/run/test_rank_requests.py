"""Requests of a rank that travel with its next step."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from matex.checkpointing.saver import FILES, MEMORY
from matex.run.rank_requests import RankRequests


class Stops:
    """Stop requests that note whether missing ranks were asked for."""

    code = 0
    asked = False

    def ask_for_missing(self) -> None:
        self.asked = True


def requests(
    stops: Stops, *, leads: bool = True, due: int = 0, short: bool = False
) -> RankRequests:
    communicator = SimpleNamespace(world=SimpleNamespace(is_leader=leads))
    elastic = SimpleNamespace(
        is_short=short,
        replacements=SimpleNamespace(is_one_ready=lambda: True),
        resize_requests=SimpleNamespace(is_one_there=lambda: False),
    )
    saver = SimpleNamespace(due=lambda: due)
    return RankRequests(communicator, saver, elastic, stops)  # type: ignore[arg-type]


def test_the_leader_asks_for_what_is_due() -> None:
    asked = requests(Stops(), due=MEMORY).collect()
    assert (asked.leave, asked.save, asked.admit, asked.resize) == (False, MEMORY, True, False)


def test_another_rank_asks_only_to_leave() -> None:
    stops = Stops()
    stops.code = 15
    asked = requests(stops, leads=False, due=FILES).collect()
    assert (asked.leave, asked.save, asked.admit, asked.resize) == (True, 0, False, False)


@pytest.mark.parametrize(("due", "short"), [(MEMORY, True), (FILES, False), (FILES, True)])
def test_missing_ranks_are_asked_for_when_a_file_is_due(due: int, short: bool) -> None:
    stops = Stops()
    requests(stops, due=due, short=short).collect()
    assert stops.asked == (due == FILES and short)
