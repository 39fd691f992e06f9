"""The root cause among all errors that ranks wrote before they ended."""

from __future__ import annotations

from typing import Any

from matex.launcher.root_cause import End, crash_in, root_cause, survived


def death(rank: int, reason: str, step: int | None = None) -> dict[str, Any]:
    return {"event": "death", "rank": rank, "reason": reason, "step": step}


def lost(*ranks: int) -> dict[str, Any]:
    return {"event": "recovered", "rank": 0, "lost": list(ranks)}


SEGFAULT = (
    'some words\nFatal Python error: Segmentation fault\n\nCurrent thread 0x1:\n  File "a.py"\n'
)


def test_the_first_error_is_the_cause() -> None:
    events = [death(2, "ValueError: bad", 7), death(0, "ValueError: worse", 7)]
    assert root_cause(events, {}) == End(2, "ValueError: bad", 7)
    assert str(End(2, "ValueError: bad", 7)) == "rank 2 at step 7: ValueError: bad"
    assert str(End(2, "ValueError: bad", 7, "a.py, line 3")).endswith("bad (a.py, line 3)")
    syntax = "SyntaxError: invalid syntax (a.py, line 3)"
    assert str(End(2, syntax, None, "a.py, line 3")) == f"rank 2: {syntax}"
    assert survived(events, {}) == []


def test_an_error_that_the_others_survived_is_a_warning_and_not_the_cause() -> None:
    events = [death(1, "OSError: disk", 3), lost(1), death(0, "KeyError: 'x'", 40)]
    assert root_cause(events, {}) == End(0, "KeyError: 'x'", 40)
    assert survived(events, {}) == [End(1, "OSError: disk", 3)]


def test_an_error_that_was_survived_is_not_blamed_for_a_later_silent_end() -> None:
    events = [death(1, "OSError: disk", 3), lost(1)]
    assert root_cause(events, {0: "killed in the middle"}) is None
    assert survived(events, {}) == [End(1, "OSError: disk", 3)]


def test_a_signal_is_read_from_the_log() -> None:
    assert root_cause([], {0: "", 1: SEGFAULT}) == End(1, "Segmentation fault")
    assert str(End(1, "Segmentation fault")) == "rank 1: Segmentation fault"
    assert root_cause([lost(1), death(0, "KeyError: 1")], {1: SEGFAULT}) == End(0, "KeyError: 1")
    assert survived([lost(1)], {1: SEGFAULT}) == [End(1, "Segmentation fault")]
    assert crash_in(SEGFAULT).splitlines()[-1].strip() == 'File "a.py"'
    assert crash_in("nothing of the kind") == ""


def test_an_injected_kill_is_named() -> None:
    kill = {"event": "fault", "rank": 0, "fault": "kill:rank=0,step=4", "step": 4, "lethal": True}
    assert root_cause([kill], {0: ""}) == End(0, "the injected fault kill:rank=0,step=4", 4)
    later = [kill, lost(0), death(1, "OSError: disk", 9)]
    assert root_cause(later, {}) == End(1, "OSError: disk", 9)


def test_without_a_word_nothing_is_made_up() -> None:
    assert root_cause([lost(2)], {0: "epoch 1", 1: "epoch 1"}) is None
