"""The ranks that a run lost, and the causes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ft
from matex.errors import DataError, InputError
from matex.records.lost_ranks import advice, lost_to_own_errors, ranks_lost, told_of

SCRIPT = Path(__file__)


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:  # noqa: BLE001 - of any kind
        return caught


def death(rank: int, cause: str | None, step: int | None = 4) -> dict[str, Any]:
    event = {"event": "death", "rank": rank, "reason": f"reason {rank}", "step": step}
    return event if cause is None else {**event, "cause": cause}


def lost(*ranks: int) -> dict[str, Any]:
    return {"event": "recovered", "rank": 0, "lost": list(ranks), "step": 5}


def test_an_exception_out_of_the_script_is_its_own_and_has_a_place() -> None:
    told = told_of(raised(KeyError("x")), "KeyError: 'x'", script=SCRIPT)
    assert (told["cause"], told["error"]) == ("script", "KeyError: 'x'")
    assert told["where"].startswith("test_lost_ranks.py, line ")
    assert told_of(SystemExit(3), "the program ended with status 3")["cause"] == "script"
    syntax = SyntaxError("invalid syntax", ("dir/train.py", 7, 1, "text"))
    assert told_of(syntax, "SyntaxError")["where"] == "train.py, line 7"


def test_it_is_told_where_the_working_directory_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tmp_path.rmdir()
    told = told_of(raised(KeyError("x")), "KeyError: 'x'", script=Path("train.py"))
    assert (told["cause"], told["error"]) == ("script", "KeyError: 'x'")


@pytest.mark.parametrize(
    ("error", "reason", "cause"),
    [
        (ft.InjectedFault("raise"), "InjectedFault", "injected"),
        (ft.InjectedExit("exit"), "InjectedExit", "injected"),
        (DataError("x.csv: line 3"), "x.csv: line 3", "data"),
        (InputError("no"), "no", "ended"),
        (None, "rank 1 computes 3 times as long as the others: evicted", "evicted"),
        (None, "made no progress for 60 s", "ended"),
    ],
)
def test_other_ends_are_not(error: BaseException | None, reason: str, cause: str) -> None:
    assert told_of(error, reason) == {"cause": cause, "error": reason}


def test_each_lost_rank_is_one_record() -> None:
    kill = {"event": "fault", "rank": 3, "fault": "kill:rank=3,step=4", "step": 4, "lethal": True}
    events = [
        *(death(1, "script"), lost(1), {**lost(1), "rank": 2}, kill, lost(3), lost(2)),
        *({"event": "restart"}, death(1, "evicted", None), lost(1)),
    ]
    assert ranks_lost(events) == [
        {"rank": 1, "step": 4, "cause": "script", "error": "reason 1"},
        {"rank": 3, "step": 4, "cause": "injected", "error": "kill:rank=3,step=4"},
        {"rank": 2, "step": 5, "cause": "signal", "error": None},
        {"rank": 1, "step": None, "cause": "evicted", "error": "reason 1"},
    ]
    assert lost_to_own_errors(events)
    assert not lost_to_own_errors(events[3:])
    assert not lost_to_own_errors([death(1, "script")])  # nobody went on without it


def test_what_to_write_instead_is_said_of_file_and_port_errors_alone() -> None:
    for error in (
        "FileNotFoundError: [Errno 2] No such file or directory: 'a'",
        "zipfile.BadZipFile: File is not a zip file",
        "ValueError: File not found: filepath=model.keras. Please ensure",
    ):
        assert "matex.rank() == 0" in advice(error)
    assert "port 0" in advice("OSError: [Errno 98] Address already in use")
    assert advice("ValueError: shapes") == ""
