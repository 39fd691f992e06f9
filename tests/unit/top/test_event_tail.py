"""Events are read once, in whole lines, whatever happens to the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from matex.top.event_tail import EventTail
from tests.unit.top.events import event, lines


def names(tail: EventTail) -> tuple[list[str], bool]:
    arrived = tail.read()
    return [found["event"] for found in arrived.events], arrived.anew


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_each_event_comes_once_and_a_half_line_is_waited_for(path: Path) -> None:
    tail = EventTail(path)
    assert names(tail) == ([], False)  # no file yet
    text = lines([event(0.0, 0, "start")])
    append(path, text[:10])
    assert names(tail) == ([], False)
    append(path, text[10:])
    assert names(tail) == (["start"], False)
    append(path, lines([event(1.0, 0, "b"), event(0.5, 0, "a")]) + "{")
    assert names(tail) == (["a", "b"], False)  # in order of time
    assert names(tail) == ([], False)


def test_a_file_that_is_continued_goes_on(path: Path) -> None:
    append(path, lines([event(0.0, 0, "start")]) + '{"half')
    tail = EventTail(path)
    assert names(tail)[0] == ["start"]
    path.write_text(lines([event(0.0, 0, "start"), event(1.0, -1, "continued")]))
    assert names(tail) == (["continued"], False)


def test_another_file_is_read_from_its_begin(path: Path) -> None:
    append(path, lines([event(0.0, 0, "start", why="long " * 100), event(1.0, 0, "fit")]))
    tail = EventTail(path)
    tail.read()
    tail.read()  # which finds nothing
    path.unlink()
    assert names(tail) == ([], False)
    longer = [
        event(9.0 + 0.1 * n, 0, name) for n, name in enumerate(["start", "fit"] + ["epoch"] * 9)
    ]
    path.write_text(lines(longer))
    assert names(tail) == ([e["event"] for e in longer], True)


def test_a_shorter_file_is_another(path: Path) -> None:
    first = event(0.0, 0, "start", why="long " * 100)
    append(path, lines([first, event(1.0, 0, "fit")]))
    tail = EventTail(path)
    tail.read()
    path.write_text(lines([first]))
    assert names(tail) == (["start"], True)


def test_what_is_no_event_is_left_out(path: Path) -> None:
    append(path, '{"time_s": "1", "rank": 0, "event": "fit"}\n')
    append(path, '\n{"time_s": 1\n[1]\nnull\n{"event": "x"}\n' + lines([event(0.0, 0, "start")]))
    assert names(EventTail(path)) == (["start"], False)
