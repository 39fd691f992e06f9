"""The contents of a report and of a comparison, from the events of a small run."""

from __future__ import annotations

import base64
import importlib.util
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from matex.cli import main
from matex.errors import InputError
from matex.records.events import Event
from matex.report.comparison import compare
from matex.report.html import Picture, document, figure, table
from matex.report.page import page
from matex.report.reading import Run, read_run


def event(time_s: float, rank: int, name: str, **fields: Any) -> Event:
    return {"time_s": 1000.0 + time_s, "rank": rank, "event": name, **fields}


def events(*, faulty: bool) -> list[Event]:
    """Three ranks, 4 s, a progress note a second; rank 1 is lost after 2 s where *faulty*."""
    found = [event(0.01 * r, r, "start", world_size=3, pid=1, host="h") for r in range(3)]
    found += [
        event(
            float(second), 0, "progress", step=10 * second, samples=640 * second,
            world_size=3, steps=10, step_s=0.1, exchange_s=0.01, loss=1 / second,
        )
        for second in (1, 2, 3, 4)
    ]  # fmt: skip
    if faulty:
        found.append(
            event(2.0, 1, "fault", fault="kill:rank=1,step=20", kind="kill", step=20, at="compute",
                  lethal=True)
        )  # fmt: skip
        found += [
            event(
                2.5, rank, "recovered", step=20, generation=1, lost=[1], detect_time_s=1002.25,
                repaired_time_s=1002.5, world_size_before=3, world_size_after=2,
            )
            for rank in (0, 2)
        ]  # fmt: skip
        found += [event(2.75, rank, "first-step", step=20, generation=1) for rank in (0, 2)]
        found.append(event(3.9, 0, "fault-not-fired", fault="nan:rank=<2>,step=9", ranks=[2]))
    loss = 0.25 + 1e-6 * faulty
    found += [event(4.0, rank, "epoch", epoch=0, step=40, loss=loss) for rank in (0, 2)]
    return sorted(found, key=lambda e: float(e["time_s"]))


def make(directory: Path, *, faulty: bool) -> Path:
    directory.mkdir()
    found = events(faulty=faulty)
    (directory / "events.jsonl").write_text("".join(json.dumps(e) + "\n" for e in found))
    summary = {
        "status": "finished", "reason": None, "world_size_start": 3,
        "world_size_end": 2 if faulty else 3, "samples_lost": 0, "wall_s": 4.5 if faulty else 4.0,
        "metrics": {"loss": 0.25 + 1e-6 * faulty},
        "weights_hash": {"0": "ab", "2": "cd" if faulty else "ab"},
    }  # fmt: skip
    (directory / "summary.json").write_text(json.dumps(summary))
    return directory


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return read_run(make(tmp_path / "out", faulty=True))


def with_events(directory: Path, *found: Event, faulty: bool = False) -> Run:
    make(directory, faulty=faulty)
    with (directory / "events.jsonl").open("a") as file:
        file.writelines(json.dumps(each) + "\n" for each in found)
    return read_run(directory)


def test_a_loss_that_became_nan_is_the_largest_difference(tmp_path: Path) -> None:
    runs = [
        with_events(tmp_path / name, event(5.0, 0, "epoch", epoch=1, step=80, loss=loss))
        for name, loss in (("a", 0.1), ("b", None))
    ]
    difference = next(row for row in compare(*runs) if "largest relative" in row[0])
    assert difference == ("loss, largest relative difference (epoch 1)", "0.1", "nan", "inf")


def test_an_event_with_fields_missing_is_left_out(tmp_path: Path) -> None:
    damaged = [event(3.0, 0, "recovered"), event(3.0, 0, "progress", step="x")]
    run = with_events(tmp_path / "out", *damaged, faulty=True)
    assert len(run.faults) == 1 and run.world_size().values == [3, 2, 2]


def test_a_rank_that_left_one_start_may_be_lost_in_the_next(tmp_path: Path) -> None:
    run = with_events(
        tmp_path / "out",
        event(4.1, 0, "resize", request="resize to 2", leaving=[2], world_size=2, refused=None,
              step=40),
        event(5.0, -1, "restart", number=1, reason="lost", step=40, ranks=3),
        *(event(5.1, rank, "start", world_size=3, pid=1, host="h") for rank in range(3)),
        event(6.0, 0, "spare-lost", step=50, lost=[2]),
        event(7.0, 0, "epoch", epoch=1, step=80, loss=0.1),
    )  # fmt: skip
    before, after = (life for life in run.lives() if life.rank == 2)
    assert before.left and not before.lost
    assert after.lost and not after.left and after.end == 6.0


def test_events_become_curves_over_time(run: Run) -> None:
    assert run.world_size() == ([0.0, 2.5, 4.0], [3, 2, 2])
    assert run.curve("loss") == [([1.0, 2.0, 3.0, 4.0], [1.0, 0.5, 1 / 3, 0.25])]
    assert run.throughput() == [([2.0, 3.0, 4.0], [640.0] * 3)]
    assert run.epochs() == [{"loss": 0.250001}]
    assert [(life.rank, life.end, life.lost) for life in run.lives()] == [
        (0, 4.0, False), (1, 2.0, True), (2, 4.0, False)
    ]  # fmt: skip


def test_a_run_that_starts_again_has_gaps(tmp_path: Path) -> None:
    """Rank 1 dies in the first start, after 4 s all of them, and all three work in the second."""
    directory = make(tmp_path / "out", faulty=True)
    more = [event(5.0, -1, "restart", number=1, step=40, reason="gone", ranks=3)]
    for made in events(faulty=False):
        moved = {"time_s": made["time_s"] + 6}
        more.append({**made, **moved, **({"step": made["step"] + 40} if "step" in made else {})})
    with (directory / "events.jsonl").open("a") as file:
        file.writelines(json.dumps(made) + "\n" for made in more)
    run = read_run(directory)
    assert run.world_size() == (
        [0.0, 2.5, 4.0, 4.0, 6.0, 10.0], [3, 2, 2, 0, 3, 3],
    )  # fmt: skip
    assert [curve.seconds for curve in run.throughput()] == [[2.0, 3.0, 4.0], [8.0, 9.0, 10.0]]
    lives = [(life.rank, round(life.begin, 3), life.end, life.lost) for life in run.lives()]
    assert lives == [
        (0, 0.0, 4.0, False), (0, 6.0, 10.0, False), (1, 0.01, 2.0, True),
        (1, 6.01, 10.0, False), (2, 0.02, 4.0, False), (2, 6.02, 10.0, False),
    ]  # fmt: skip
    assert [fault["rank"] for fault in run.faults] == [1, None]
    if importlib.util.find_spec("matplotlib") is not None:
        pictures = importlib.import_module("matex.report.plots").pictures
        assert set(pictures(run)) >= {"loss.png", "ranks.png"}


class Page(HTMLParser):
    """Whether tags are balanced, what the text is, and the images."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.images: list[str] = []
        self.sources: list[tuple[str, str]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag == "img":
            self.images.append(dict(attributes)["src"] or "")
        elif tag == "source":
            given = dict(attributes)
            self.sources.append((given["media"] or "", given["srcset"] or ""))
        elif tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def png_of(address: str) -> bytes:
    """Content of a picture's address."""
    return base64.b64decode(address.partition("base64,")[2])


def test_the_page_needs_nothing_beside_it(run: Run) -> None:
    text = page(run, {"loss.png": Picture(b"picture", b"by night", b"small", b"small by night")})
    read = Page(text)
    assert read.open == []
    assert [png_of(image) for image in read.images] == [b"picture"]
    assert [(media, png_of(image)) for media, image in read.sources] == [  # the first that holds
        ("(max-width: 45em) and (prefers-color-scheme: dark)", b"small by night"),
        ("(max-width: 45em)", b"small"),
        ("(prefers-color-scheme: dark)", b"by night"),
    ]
    assert not re.findall(r"(?:href|src|srcset)=\"(?!data:)|url\(|@import", text)
    assert text.count("prefers-color-scheme: dark") == 3
    assert {"kill", "compute", "250", "750", "finished"} <= set(read.words)
    assert "nan:rank=<2>,step=9" in " ".join(read.words)
    assert "<2>" not in text
    assert "NOT EQUAL" in text


def test_a_run_without_faults_or_a_summary_has_a_page(tmp_path: Path) -> None:
    directory = make(tmp_path / "out", faulty=False)
    (directory / "summary.json").unlink()
    text = page(read_run(directory), {})
    assert "did not come to a summary" in text
    assert "<p>None.</p>" in text


def shrinking(directory: Path) -> Path:
    """A small run with an event of apoptosis, which two ranks record."""
    changes = [
        {"layer": "a", "units_from": 64, "units_to": 30, "cost": 0.01, "loss": 0.5, "kept": True},
        {"layer": "b", "units_from": 32, "units_to": 9, "cost": 0.01, "loss": 0.9, "kept": False},
    ]
    told = {
        "step": 20, "epoch": 2, "changes": changes, "parameters": 900, "parameters_before": 2100,
        "flops": 1800.0, "loss_before": 0.5, "loss_after": 0.5, "at_risk": 0.031, "seconds": 0.4,
        "left_alone": {"out": "Dense: an output"},
    }  # fmt: skip
    with (make(directory, faulty=False) / "events.jsonl").open("a") as file:
        for rank in (0, 2):
            file.write(json.dumps(event(2.1, rank, "apoptosis", **told)) + "\n")
    return directory


def test_what_apoptosis_did_is_in_the_page(tmp_path: Path) -> None:
    run = read_run(shrinking(tmp_path / "out"))
    text = page(run, {})
    cells = Page(text).words
    for row in (
        ["2", "1 of 2", "-34", "900", "1800", "0.5", "0.5", "3.1%", "0.4"],
        ["a", "64", "30"],
        ["b", "32", "stays"],
        ["out", "Dense: an output"],
    ):
        assert "\n".join(row) in "\n".join(cells)
    widths = run.widths()
    assert widths["a"].values == [64, 30, 30] and widths["b"].values == [32, 32]
    assert len(run.shrinkings()) == 1
    if importlib.util.find_spec("matplotlib") is not None:
        from matex.report.plots import pictures

        drawn = pictures(run)["apoptosis.png"]
        assert drawn.light.startswith(b"\x89PNG")
        widths_px = [int.from_bytes(png[16:20]) for png in (drawn.light, drawn.narrow_light)]
        assert widths_px == [990, 840]


def test_report_writes_the_page_and_its_pictures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib", reason="the extra 'report' is not installed")
    directory = make(tmp_path / "out", faulty=True)
    assert main(["report", str(directory)]) == 0
    assert capsys.readouterr().out == f"{directory / 'report.html'}\n"
    read = Page((directory / "report.html").read_text())
    images = read.images
    others = {image for _, image in read.sources}
    assert len(others) == 3 * len(images) and not others & set(images)
    assert all(png_of(image).startswith(b"\x89PNG") for image in others)
    for name, source in zip(("loss", "ranks", "throughput"), images, strict=True):
        content = (directory / f"{name}.png").read_bytes()
        assert content.startswith(b"\x89PNG")
        assert png_of(source) == content


def test_cells_say_their_heading_where_the_screen_is_narrow() -> None:
    text = table(["rank", "<at>"], [["1", "a&b"]], links=["", "x.html"])
    assert Page(text).open == []
    assert '<td data-heading="&lt;at&gt;">a&amp;b</td>' in text
    assert '<th><a href="x.html">&lt;at&gt;</a></th>' in text
    assert "data-heading" not in table((), [["status", "finished"]])


def test_tables_scroll_in_a_box_and_pictures_fit_a_narrow_screen() -> None:
    picture = figure("c", Picture(b"p", b"n", b"s", b"sn"))
    text = document("a", [table((), [["name", "value"]]), picture])
    assert Page(text).open == []
    assert re.findall(r'<div class="wide"><(\w+)', text) == ["table", "picture"]
    assert ".wide { overflow-x: auto }" in text
    assert re.findall(r"[^{}]*img \{([^}]*)\}", text) == [
        " max-width: 100%; height: auto ",
        " max-width: min(100%, 34em) ",
    ]


def noted(directory: Path, notes: list[tuple[int, int, float]], *ends: int) -> Run:
    """A run with (step, steps, seconds of a step) as progress notes, and epochs that end."""
    found = [event(0.0, 0, "start", world_size=1), event(0.0, 0, "fit", step=0)]
    found += [
        event(1.0 + n, 0, "progress", step=step, steps=steps, step_s=seconds, loss=float(step))
        for n, (step, steps, seconds) in enumerate(notes)
    ]
    found += [event(90.0, rank, "epoch", epoch=0, step=end) for end in ends for rank in range(2)]
    return Run(directory=directory, summary={}, events=found)


def test_a_loss_that_begins_anew_is_a_curve_of_its_own(tmp_path: Path) -> None:
    """Two epochs of four steps; after a restart the second is made again from its third step on."""
    steps = [1, 3, 4, 7, 5, 6]
    run = noted(tmp_path, [(step, 1, 0.25) for step in steps], 4, 8)
    assert [curve.values for curve in run.curves("loss")] == [[1, 3], [4, 7], [5, 6]]
    assert run.curves("loss")[1].seconds == [3.0, 4.0]
    alone = noted(tmp_path, [(step, 1, 0.25) for step in range(5)])
    assert [curve.values for curve in alone.curves("loss")] == [[0, 1, 2, 3, 4]]


def test_the_first_steps_are_out_of_the_scale(tmp_path: Path) -> None:
    notes = [(0, 1, 2.0), (1, 1, 1.5), (4, 3, 0.25), (9, 5, 0.5)]
    assert noted(tmp_path, notes).largest_of_ready_steps("step_s", scale=1e3) == 500.0
    assert noted(tmp_path, notes[:2]).largest_of_ready_steps("step_s") is None
    assert noted(tmp_path, [(3, 2, 2.0), (3, 3, 9.0)]).largest_of_ready_steps("step_s") == 2.0


@pytest.mark.parametrize("content", [None, "", "{no json\n"])
def test_what_is_no_report_is_refused(
    content: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (tmp_path / "events.jsonl").write_text(content)
    with pytest.raises(InputError):
        read_run(tmp_path)
    for words in (["report", str(tmp_path)], ["faults", "compare", str(tmp_path), str(tmp_path)]):
        with pytest.raises(SystemExit) as stop:
            main(words)
        assert stop.value.code == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert str(tmp_path) in line
        assert ("which has no events.jsonl; name the DIR" in line) == (content is None)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "Expecting value: line 1 column 1 (char 0)"),
        (b"[1,2]", "no JSON object"),
        (b"\xff\xff", "can't decode byte"),
        (b'{"metrics": 3}', "its metrics is no JSON object"),
        (b'{"weights_hash": null}', "its weights_hash is no JSON object"),
    ],
)
def test_a_summary_that_is_none_is_named(
    content: bytes, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = make(tmp_path / "out", faulty=False)
    (directory / "summary.json").write_bytes(content)
    with pytest.raises(SystemExit) as stop:
        main(["report", str(directory)])
    assert stop.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"Received: {directory / 'summary.json'}: " in line
    assert said in line


def test_a_comparison_says_what_the_faults_cost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = (make(tmp_path / name, faulty=name == "b") for name in ("a", "b"))
    rows = {row[0]: row[1:] for row in compare(read_run(a), read_run(b))}
    assert rows["world_size_end"] == ("3", "2", "-1")
    assert rows["wall_s"] == ("4", "4.5", "+0.5")
    assert rows["time lost to faults, s"] == ("0", "0.75", "+0.75")
    assert rows["ranks lost"] == ("0", "1", "+1")
    assert rows["loss, last epoch"] == ("0.25", "0.250001", "+1e-06")
    assert rows["loss, largest relative difference (epoch 0)"][2] == "4.0e-06"
    assert rows["weights"] == ("ab", "ab cd", "not the same bits")
    assert main(["faults", "compare", str(a), str(b)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(rows)
