"""Requests for another number of ranks: how they are written, found and answered."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

import ft
from matex.errors import InputError
from matex.records.launcher_protocol.resize_request import RESIZE, Request, write_request
from matex.run.resize_requests import Decision, ResizeRequests, decide

MEMBERS = [
    ft.Member(rank=rank, host=host, pid=100 + rank)
    for rank, host in ((0, "a"), (1, "a"), (2, "b"), (4, "b"))
]
SPARES = [ft.Member(rank=5, host="a", pid=105)]


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (Request(1, size=2), Decision((2, 4), 2)),
        (Request(1, size=4), Decision((), 4)),
        (Request(1, size=60), Decision((), 60)),
        (Request(1, host="a"), Decision((0, 1), 2)),
        (Request(1, host="b"), Decision((2, 4), 2)),
    ],
)
def test_a_request_decides_which_ranks_leave(request_: Request, answer: Decision) -> None:
    options = {"shares": True, "survives": True, "coming": 60}
    assert decide(request_, MEMBERS, spares=(), **options) == answer


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (Request(1, size=3), Decision((4,), 3)),
        (Request(1, size=4), Decision((), 4)),
        (Request(1, size=5), Decision((), 5)),
        (Request(1, host="b"), Decision((2, 4), 3)),
    ],
)
def test_who_leaves_where_a_rank_is_in_reserve(request_: Request, answer: Decision) -> None:
    options = {"shares": True, "survives": True, "coming": 0}
    assert decide(request_, MEMBERS, spares=SPARES, **options) == answer


@pytest.mark.parametrize(
    ("request_", "options", "why"),
    [
        (Request(1, host="a"), {"spares": SPARES}, "rank 5, in reserve, is on a"),
        (
            Request(1, size=6),
            {"spares": SPARES, "coming": 0},
            "1 rank is in reserve; others can join a fit only with --respawn",
        ),
        (Request(1, size=2), {"survives": False}, "without ULFM all ranks end"),
        (Request(1, size=7), {"shares": False}, "began with 1 rank, and shares nothing"),
        (Request(1, size=5), {"coming": 0}, "only with --respawn"),
        (Request(1, size=8), {"coming": 2}, "at most 6 ranks can be had: 2 cold spares are left"),
        (Request(1, size=7), {"spares": SPARES, "coming": 1}, "at most 6 ranks can be had: 1 cold"),
        (Request(1, host="c"), {}, "no rank is on c; ranks are on a, b"),
    ],
)
def test_what_cannot_be_is_refused(request_: Request, options: dict[str, Any], why: str) -> None:
    given = {"spares": (), "shares": True, "survives": True, "coming": 60, **options}
    answer = decide(request_, MEMBERS, **given)
    assert why in answer.refused
    assert not answer.leaving


def test_nobody_would_be_left() -> None:
    answer = decide(
        Request(1, host="a"), MEMBERS[:2], spares=(), shares=True, survives=True, coming=0
    )
    assert "nobody would be left" in answer.refused


def test_a_request_is_found_and_gone_when_it_is_removed(tmp_path: Path) -> None:
    requests = ResizeRequests(tmp_path, pytest.fail)
    write_request(tmp_path, Request(7, host="b"))
    assert stat.S_IMODE((tmp_path / RESIZE).stat().st_mode) == 0o600
    with pytest.raises(InputError, match="no other request may wait"):
        write_request(tmp_path, Request(8, size=1))
    assert [path.name for path in tmp_path.iterdir()] == [RESIZE]
    assert requests.is_one_there()
    assert requests.current() == Request(7, host="b")
    next_leader = ResizeRequests(tmp_path, pytest.fail)
    next_leader.remove()  # it has not found it
    assert next_leader.current() == Request(7, host="b")
    requests.remove()
    assert not (tmp_path / RESIZE).exists()
    assert requests.current() is None


def test_without_a_report_there_is_none() -> None:
    assert not ResizeRequests(None, pytest.fail).is_one_there()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[1, 2]",
        b'{"number": 1, "size": 2}',
        b'{"number": 1, "size": 0, "host": ""}',
        b'{"number": 1, "size": 2, "host": "a"}',
        b'{"number": "1", "size": 2, "host": ""}',
        b'{"number": 1, "size": 2, "host": 3}',
    ],
)
def test_what_is_none_is_removed_and_said(tmp_path: Path, content: bytes) -> None:
    lines: list[str] = []
    (tmp_path / RESIZE).write_bytes(content)
    assert not ResizeRequests(tmp_path, lines.append).is_one_there()
    assert "must be what matex resize writes" in lines[0]
    assert not (tmp_path / RESIZE).exists()
