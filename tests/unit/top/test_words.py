"""Events in words."""

from __future__ import annotations

import pytest

from matex.top import words
from matex.top.words import in_words, printable
from tests.unit.docs.pages import DOCS, tables
from tests.unit.top.events import event, progress, recovered

EXAMPLES = {
    "joined": ({"joined": {"1": 4}, "world_size_after": 3}, "rank 4 for rank 1"),
    "nonfinite": ({"ranks": [1, 2], "step": 1200}, "ranks 1, 2 computed a NaN"),
    "healed": ({"source": [0, 2]}, "has the weights of ranks 0, 2"),
    "straggler": ({"ratio": 2.53, "evicted": True}, "2.5 times as long as the others; it ends"),
    "apoptosis": (
        {
            "epoch": 4,
            "parameters_before": 12000,
            "parameters": 9000,
            "changes": [{"kept": True}, {"kept": False}],
        },
        "after epoch 4: 1 group made smaller, parameters 12,000 -> 9,000",
    ),
    "checkpoint-failed": ({"step": 30, "reason": "No space"}, "no checkpoint of step 30: No space"),
    "respawn": ({"newcomer": 4, "host": "b"}, "rank 4 is started on b, for a missing one"),
    "admitted": (
        {"newcomer": 4, "host": "b", "seconds": 6.25},
        "rank 4 on b is let in as a spare, 6.2 s after its start",
    ),
    "took-over": (
        {"ranks": [4, 5], "pause_s": 0.3},
        "ranks 4, 5 have the state of the others, which paused for 0.30 s",
    ),
    "respawn-failed": ({"newcomer": 4, "reason": "killed"}, "rank 4 did not come: killed"),
    "failed": ({"reason": "no rank is left"}, "the run failed: no rank is left"),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_event_in_words(name: str) -> None:
    fields, said = EXAMPLES[name]
    assert said in str(in_words(event(0.0, 3, name, **fields)))


def test_a_recovery_names_who_is_in_whose_place() -> None:
    joined = recovered(0.0, 0, lost=[1], joined={"1": 4}, world_size_after=3)
    assert in_words(joined) == (
        "lost rank 1 in step 20, rank 4 for rank 1; 3 of 3 ranks go on, repaired in 12 ms"
    )


def test_what_is_said_is_said_of_events_that_there_are() -> None:
    assert set(words._WORDS) <= set(tables(DOCS / "reference" / "events.md"))


def test_what_is_shown_elsewhere_is_not_news() -> None:
    assert in_words(progress(0.0, 1, samples=2)) is None


def test_no_text_steers_a_terminal() -> None:
    assert printable("a\x1b[2J\nb\u200b") == "a [2J b "
