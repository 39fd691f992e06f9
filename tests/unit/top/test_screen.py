"""The screen of a run."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from rich.console import Console

from matex.records.events import Event
from matex.top.processes import Processes
from matex.top.run_view import RunView, view_of
from matex.top.screen import Surroundings, screen
from matex.top.sparkline import PLAIN
from tests.unit.top.events import BEGAN_S, event, fit, progress, recovered, starts, timing


def shown(view: RunView, *, height: int | None = None, width: int = 80, **around: Any) -> list[str]:
    given = {"name": "out", "now_s": BEGAN_S + 10} | around
    file = io.StringIO()
    console = Console(file=file, width=width, force_terminal=False, highlight=False)
    made = screen(view, Surroundings(**given), height=height, width=width, signs=PLAIN)
    console.print(made, crop=height is not None)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def value(lines: list[str], name: str) -> str:
    return next(line.partition(name)[2].strip() for line in lines if line.startswith(name))


@pytest.fixture
def events() -> list[Event]:
    return [
        *starts(3, ends_s=BEGAN_S + 3610),
        fit(0.5, samples=3000),
        progress(1.0, 9, samples=640, loss=0.7),
        progress(2.0, 19, samples=1280, loss=0.6),
        timing(2.0, 0, 19, 0.1, 0.09),
        timing(2.0, 1, 19, 0.1, 0.01),
        timing(2.0, 2, 19, 0.1, 0.08),
    ]


def test_a_run_that_trains(events: list[Event]) -> None:
    lines = shown(view_of(events), silent_s=0.25, step=21)
    assert value(lines, "run") == "training with 3 of 3 ranks, for 10 s"
    assert value(lines, "step") == "21, epoch 1 of 3 (step 21 of 47)"
    assert value(lines, "speed") == "640 samples/s, step 100 ms, exchange 10 ms"
    assert value(lines, "samples") == "1,280"
    assert value(lines, "wall time") == "1 h 00 min left"
    assert value(lines, "heard") == "0.2 s ago"
    assert value(lines, "loss") == "0.6  #_"
    assert "the others wait for rank 1, which computes 90 ms a step" in lines
    header = next(line for line in lines if line.startswith("rank  "))
    assert re.sub(" +", " ", header) == "rank host state step step ms exchange ms waits ms memory"
    one = lines[lines.index(header) + 2].split()
    assert one == ["1", "h", "training", "20", "100", "10", "0", "5", "MB"]


def test_a_run_that_lost_ranks(events: list[Event]) -> None:
    why = {"fault": "kill:rank=1,step=20", "kind": "kill", "step": 20, "at": "compute"}
    struck = event(2.5, 1, "fault", lethal=True, **why)
    lines = shown(view_of([*events, struck, recovered(2.6, 0, lost=[1])]))
    assert value(lines, "run").startswith("training with 2 of 3 ranks")
    assert "rank 1 died: kill:rank=1,step=20" in lines
    assert ["1", "h", "dead", "20"] in [line.split() for line in lines]
    assert lines[-1].endswith("lost rank 1 in step 20; 2 of 3 ranks go on, repaired in 12 ms")


def test_a_run_that_is_over(events: list[Event]) -> None:
    view = view_of([*events, event(4.0, 0, "finished", reason=None)])
    summary = {"steps": 48, "samples_used": 3000, "step_s": 0.05, "exchange_s": 0.002}
    lines = shown(view, summary=summary, silent_s=6.0)
    assert value(lines, "run") == "finished with 3 of 3 ranks, took 4.0 s"
    timed = shown(view, summary={**summary, "wall_s": 65.5})  # which begins before the events
    assert value(timed, "run") == "finished with 3 of 3 ranks, took 1 min 06 s"
    assert value(lines, "step").startswith("48")
    assert value(lines, "speed") == "640 samples/s, step 50 ms, exchange 2 ms"
    assert value(lines, "samples") == "3,000"
    assert value(lines, "ended") == "6.0 s ago"
    assert not any("wait for" in line or line.startswith("wall time") for line in lines)


def test_processes_that_left_without_a_word(events: list[Event]) -> None:
    processes = Processes(memory={0: 7_000_000}, gone=frozenset({1}))
    lines = shown(view_of(events), processes=processes)
    rows = {line.split()[0]: line.split() for line in lines if line.strip()}
    assert (rows["0"][-2:], rows["1"][2]) == (["7", "MB"], "gone")
    lines = shown(view_of(events), processes=Processes(gone=frozenset({0, 1, 2})))
    assert "none of its processes is left on this host" in lines
    assert value(lines, "run").startswith("gone, for ")


def test_a_run_of_which_next_to_nothing_is_known() -> None:
    view = view_of([event(0.0, 0, "devices", gpu=None, threads=1, cores=[])])
    assert value(shown(view), "run") == "starting, for 10 s"


@pytest.mark.parametrize("ranks", [3, 100])
def test_a_small_terminal_holds_all_that_matters(ranks: int) -> None:
    found = [*starts(ranks), progress(1.0, 9, samples=640, ranks=ranks)]
    found += [timing(2.0, rank, 19, 0.1, 0.05) for rank in range(ranks)]
    found += [recovered(3.0, 0, lost=[2], world_size_before=ranks, world_size_after=ranks - 1)]
    found += [event(4.0, 0, "nonfinite", step=n, ranks=[0], policy="skip") for n in range(30)]
    lines = shown(view_of(found), height=24)
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert any(line.split()[:3] == ["2", "h", "dead"] for line in lines)
    assert ("and" in " ".join(lines)) == (ranks == 100)
    if ranks == 100:
        left_out = next(line for line in lines if line.startswith("and "))
        assert left_out.endswith("training, 50 ms to compute")


def test_a_long_line_is_whole_in_a_log_and_cut_on_a_terminal() -> None:
    view = view_of([*starts(1), event(1.0, 0, "death", reason="x" * 200, step=1, cause="script")])
    assert any("x" * 200 in line for line in shown(view))
    assert max(map(len, shown(view, height=24))) <= 80


def test_no_text_of_a_run_is_taken_for_markup() -> None:
    view = view_of([*starts(1, host="[red]h[/]"), progress(1.0, 1, samples=1)])
    assert any("[red]h[/]" in line for line in shown(view))


@pytest.mark.parametrize("width", [80, 60, 40, 30])
@pytest.mark.parametrize("name", ["auc", "m" * 74])
def test_values_stay_where_a_terminal_is_narrow(events: list[Event], width: int, name: str) -> None:
    told = [
        event(3.0 + n, 0, "epoch", epoch=n, step=n, **{"loss": 0.123456, name: 0.01 * n + 0.98765})
        for n in range(1, 50)
    ]
    lines = shown(view_of([*events, *told]), width=width)
    tables = [n for n, line in enumerate(lines) if line == ""]
    curves, ranks = (lines[a + 1 : b] for a, b in zip(tables, [*tables[1:], None], strict=True))
    ranks = ranks[:4]  # a line about them follows
    assert max(map(len, curves + ranks)) <= width
    assert "0.12346" in curves[0]
    assert "1.4777" in curves[1]
    assert "…" not in "".join(ranks) + curves[0]
    assert ("…" in curves[1]) == (len(name) > width - 20)
    assert re.sub(" +", " ", ranks[0]).startswith("rank host state step")


def test_a_terminal_in_which_not_even_the_step_has_room(events: list[Event]) -> None:
    lines = shown(view_of([*events, recovered(2.6, 0, lost=[1])]), width=22)
    assert any(line.split() == ["1", "h", "dead"] for line in lines)
