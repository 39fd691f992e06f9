"""The page of several runs beside each other."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from matex.cli import main
from matex.report.comparison import side_by_side
from matex.report.index import names_of, write_index
from matex.report.plots import labelled
from matex.report.reading import read_run
from tests.unit.report.test_report import Page, make


def test_several_runs_are_beside_each_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib", reason="the extra 'report' is not installed")
    (tmp_path / "runs").mkdir()
    made = [make(tmp_path / "runs" / name, faulty=name == "b") for name in ("a", "b", "c")]
    page_of_all = tmp_path / "index.html"
    assert main(["report", *map(str, made), "--index", str(page_of_all)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(page_of_all)
    text = page_of_all.read_text()
    read = Page(text)
    assert read.open == [] and (len(read.images), len(read.sources)) == (2, 6)
    links = re.findall(r'href="([^"]*)"', text)
    assert links == ["runs/a/report.html", "runs/b/report.html", "runs/c/report.html"]
    assert all((tmp_path / link).exists() for link in links)
    rows = {row[0]: row[1:] for row in side_by_side([read_run(directory) for directory in made])}
    assert rows["world_size_end"] == ["3", "2", "3"]
    assert rows["ranks lost"] == ["0", "1", "0"]
    assert rows["weights"] == ["ab", "ab cd", "ab"]
    assert "restarts" not in rows
    monkeypatch.chdir(tmp_path)
    assert main(["report", *map(str, made[:2])]) == 0
    assert "2 runs" in (tmp_path / "runs.html").read_text()


def test_names_of_directories_are_shown_and_linked_as_they_are(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra 'report' is not installed")
    made = [make(tmp_path / name, faulty=False) for name in ("a b#1?%20", "x$y_{$", "_c")]
    written = write_index([read_run(directory) for directory in made], tmp_path / "index.html")
    links = [unquote(link) for link in re.findall(r'href="([^"#?]*)"', written.read_text())]
    assert links == [f"{directory.name}/report.html" for directory in made]
    assert labelled("_c").startswith(" ")  # matplotlib leaves out what begins with _


@pytest.mark.parametrize("index", ["absent/index.html", None])
def test_an_index_of_one_run_or_nowhere_is_refused(
    index: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib", reason="the extra 'report' is not installed")
    made = [str(make(tmp_path / name, faulty=False)) for name in ("a", "b")]
    one, several = [made[0], "--index", "x.html"], [*made, "--index", f"{tmp_path}/{index}"]
    with pytest.raises(SystemExit) as stop:
        main(["report", *(one if index is None else several)])
    assert stop.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "Received: " in line


@pytest.mark.parametrize(
    ("paths", "wanted"),
    [
        (["/x/a", "/x/b"], ["a", "b"]),
        (["/x/a/out", "/x/b/out", "/y/b/other"], ["a/out", "b/out", "b/other"]),
        (["/x/a", "/x/a"], ["a", "a"]),
    ],
)
def test_runs_have_the_shortest_names_that_tell_them_apart(
    paths: list[str], wanted: list[str]
) -> None:
    assert names_of([Path(path) for path in paths]) == wanted
