"""The demo: its table from two summaries, the step of the kill, and why a run did not count."""

from __future__ import annotations

import importlib
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from rich.console import Console

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(autouse=True)
def neighbours(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The examples import each other as scripts in one folder do."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield


@pytest.fixture
def demo(neighbours: None) -> ModuleType:
    return importlib.import_module("demo")


def summary(**changes: Any) -> dict[str, Any]:
    """A run of four ranks without a fault, as its summary.json says it."""
    start: dict[str, Any] = {
        "status": "finished",
        "world_size_start": 4,
        "world_size_end": 4,
        "restarts": 0,
        "epochs": 5,
        "steps": 1760,
        "samples_expected": 900000,
        "samples_used": 900000,
        "samples_repeated": 0,
        "samples_lost": 0,
        "metrics": {"auc": 0.87654, "loss": 0.43219, "val_auc": 0.86543, "val_loss": 0.45678},
        "wall_s": 41.26,
        "faults": [],
    }
    return {**start, **changes}


def kill(**changes: Any) -> dict[str, Any]:
    start: dict[str, Any] = {
        "kind": "kill",
        "rank": 2,
        "step": 880,
        "detect_s": 0.021,
        "repair_s": 0.052,
        "to_next_step_s": 0.1234,
        "world_size_before": 4,
        "world_size_after": 3,
    }
    return {**start, **changes}


def text_of(demo: ModuleType, *runs: dict[str, Any]) -> str:
    console = Console(file=io.StringIO(), width=120)
    console.print(demo.make_table(*runs))
    return console.file.getvalue()


# ---------------------------------------------------------------- the table


def test_rows_put_both_runs_side_by_side(demo: ModuleType) -> None:
    faulty = summary(
        world_size_end=3,
        faults=[kill()],
        samples_used=899_999,
        samples_repeated=7,
        samples_lost=1,
        metrics={"auc": 0.8, "loss": 0.4, "val_auc": 0.7, "val_loss": 0.5},
        wall_s=50.0,
    )
    assert demo.rows(summary(), faulty) == [
        ("AUC, test events", "0.8654", "0.7000"),
        ("AUC, training events", "0.8765", "0.8000"),
        ("loss, test events", "0.4568", "0.5000"),
        ("loss, training events", "0.4322", "0.4000"),
        ("world size at the end", "4 of 4 ranks", "3 of 4 ranks"),
        ("kill to next finished step", "no fault", "0.123 s"),
        ("samples used", "900,000 of 900,000", "899,999 of 900,000"),
        ("samples repeated", "0", "7"),
        ("samples lost", "0", "1"),
        ("wall time", "41.3 s", "50.0 s"),
    ]


def test_unknown_figures_are_dashes_and_every_fault_has_its_time(demo: ModuleType) -> None:
    faults = [kill(), kill(rank=1, to_next_step_s=None), kill(rank=3, to_next_step_s=2)]
    table = {name: (a, b) for name, a, b in demo.rows(summary(metrics={}), summary(faults=faults))}
    assert table["AUC, test events"] == ("-", "0.8654")
    assert table["kill to next finished step"] == ("no fault", "0.123 s, -, 2.000 s")


def test_the_table_shows_every_cell_and_names_the_fault(demo: ModuleType) -> None:
    runs = summary(), summary(world_size_end=3, faults=[kill()])
    shown = text_of(demo, *runs)
    assert "HIGGS on 4 ranks" in shown
    assert "kill rank 2, step 880" in shown
    for row in demo.rows(*runs):
        for cell in row:
            assert cell in shown


# ---------------------------------------------------------------- the runs


@pytest.mark.parametrize(
    ("epochs", "events", "step"),
    [(5, 200_000, 880), (1, 1000, 1), (2, 570, 2), (3, 11_000_000, 30762)],
)
def test_the_kill_comes_in_the_middle(
    demo: ModuleType, epochs: int, events: int, step: int
) -> None:
    assert demo.middle_step(epochs, events) == step


def test_the_two_commands_differ_by_the_fault_alone(demo: ModuleType) -> None:
    folder = Path("out")
    plain = demo.command(folder, 5, 1000, None)
    faulty = demo.command(folder, 5, 1000, "kill:rank=2,step=3")
    start = [sys.executable, "-m", "matex", "run", "-n", "4", "--report", "out"]
    assert plain[:8] == start
    assert Path(plain[8]) == EXAMPLES / "01_higgs.py"
    assert plain[9:] == ["--epochs", "5", "--events", "1000", "--batch-size", "512"]
    assert faulty == [*start, "--inject", "kill:rank=2,step=3", *plain[8:]]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "no readable .*summary.json"),
        ("{", "no readable .*summary.json"),
        ("[1]", "one JSON object. Received: list"),
        (json.dumps(summary(status="failed")), "status 'failed'"),
        (json.dumps(summary(status="stopped")), "status 'stopped'"),
        (json.dumps({k: v for k, v in summary().items() if k != "faults"}), "lacks faults"),
        (json.dumps(summary(samples_lost="0", wall_s=None)), "lacks samples_lost, wall_s"),
    ],
)
def test_a_summary_that_tells_no_success_is_refused(
    demo: ModuleType, tmp_path: Path, content: str | None, reason: str
) -> None:
    if content is not None:
        (tmp_path / "summary.json").write_text(content)
    with pytest.raises(demo.DemoError, match=reason) as caught:
        demo.read_summary(tmp_path)
    assert "\n" not in str(caught.value)


def program(report: Path, content: dict[str, Any], ending: str) -> list[str]:
    """A program that prints, leaves a summary, and ends as told."""
    lines = [
        "import pathlib, sys",
        f"folder = pathlib.Path({str(report)!r})",
        "folder.mkdir(parents=True)",
        "print('Epoch 1/1 [bold]')",
        "print('first', 'last', sep='\\n', file=sys.stderr)",
        f"(folder / 'summary.json').write_text({json.dumps(content)!r})",
        ending,
    ]
    return [sys.executable, "-c", "\n".join(lines)]


def test_a_run_shows_what_is_printed_and_returns_the_summary(
    demo: ModuleType, tmp_path: Path
) -> None:
    report = tmp_path / "report"
    console = Console(file=io.StringIO(), width=120)
    for wall_s in (1.5, 2.5):  # the second time over the report of the first
        content = summary(wall_s=wall_s)
        assert demo.run(console, report, program(report, content, "sys.exit(0)")) == content
    assert console.file.getvalue() == "  Epoch 1/1 [bold]\n" * 2


def test_a_failed_run_gives_the_last_line_of_its_errors(demo: ModuleType, tmp_path: Path) -> None:
    report = tmp_path / "report"
    console = Console(file=io.StringIO())
    with pytest.raises(demo.DemoError, match=r"exit status 3: last$"):
        demo.run(console, report, program(report, summary(), "sys.exit(3)"))


def test_a_report_of_an_earlier_run_is_not_taken_for_this_one(
    demo: ModuleType, tmp_path: Path
) -> None:
    (tmp_path / "summary.json").write_text(json.dumps(summary()))
    with pytest.raises(demo.DemoError, match="no readable"):
        demo.run(Console(file=io.StringIO()), tmp_path, [sys.executable, "-c", "pass"])


def test_a_run_without_end_is_ended(
    demo: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "LIMIT_S", 0.2)
    waiting = [sys.executable, "-c", "import threading; threading.Event().wait()"]
    with pytest.raises(demo.DemoError, match="exit status -15"):
        demo.run(Console(file=io.StringIO()), tmp_path, waiting)
