"""The planned faults that never went off, and their ranks."""

from __future__ import annotations

import ft
from matex.records.fault_records import unfired


def fired(text: str, rank: int) -> dict[str, object]:
    return {"event": "fault", "fault": text, "rank": rank}


def told(texts: list[str], *events: dict[str, object]) -> list[tuple[str, list[int]]]:
    return [(f.text, ranks) for f, ranks in unfired(map(ft.parse_fault, texts), list(events))]


def test_what_fired_everywhere_is_not_told() -> None:
    text = "kill:rank=1+3,step=40"
    assert told([text], fired(text, 1), fired(text, 3), {"event": "epoch", "rank": 0}) == []


def test_a_rank_that_was_dead_before_is_named() -> None:
    text = "kill:rank=1+3,step=40"
    assert told([text], fired(text, 3)) == [(text, [1])]
    assert told([text]) == [(text, [1, 3])]


def test_of_two_equal_faults_one_may_have_fired() -> None:
    text = "nan:rank=1,event=epoch"
    assert told([text, text], fired(text, 1)) == [(text, [1])]


def test_a_node_fault_has_fired_when_any_rank_was_hit() -> None:
    text = "node:host=b,step=3"
    assert told([text]) == [(text, [])]
    assert told([text], fired(text, 7)) == []
