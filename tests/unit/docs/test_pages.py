"""Links, options, names and code of the documentation hold, without MkDocs."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

import docs.tools.tables
import ft
from docs.pictures.__main__ import stale
from docs.tools.commands import command_sections
from docs.tools.exclusions import compatible, settings
from docs.tools.hooks import on_page_content
from docs.tools.tables import option_names
from matex.cli.main import main, make_parser
from tests.unit.docs.pages import DOCS, PAGES, ROOT, TEXTS, anchors, blocks, links, prose

DESIGN = sorted((DOCS / "design").glob("*.md"))
NAV = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_each_page_is_in_the_navigation(path: Path) -> None:
    assert re.search(rf"(?:- |: ){re.escape(str(path.relative_to(DOCS)))}$", NAV, re.MULTILINE)


@pytest.mark.parametrize("path", TEXTS, ids=name_of)
def test_each_relative_link_leads_to_a_page_and_a_heading(path: Path) -> None:
    for link in links(path):
        if "://" in link:
            continue
        target, _, anchor = link.partition("#")
        page = (path.parent / target).resolve() if target else path
        assert page.exists(), link
        assert not anchor or anchor in anchors(page), link


def _known_options() -> set[str]:
    return option_names() | set(re.findall(r"--[a-z][a-z-]*", command_sections()))


def test_each_option_that_is_named_exists() -> None:
    others = {
        "--with-ft",
        "--data",
        "--epochs",
        "--fork-ranks",
        "--help",
        "--seeds",
        "--layer",
        "--logdir",
        "--map-by",
        "--param",
        "--level",
        "--find-links",
        "--no-index",
    }  # mpiexec, examples, pytest, ci, tensorboard, ompi_info, pip
    slurm = {
        "--batch",
        "--cpus-per-task",
        "--distribution",
        "--export",
        "--no-kill",
        "--requeue",
        "--signal",
        "--nodes",
        "--ntasks-per-node",
        "--time",
    }
    known = _known_options() | others | slurm
    for path in TEXTS:
        text = re.sub(r"`python -m ci\.[^`]*`", "", path.read_text())  # which have their own
        named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text))
        assert named <= known, name_of(path)


def test_each_option_has_a_line_in_the_reference(capsys: pytest.CaptureFixture[str]) -> None:
    page = (DOCS / "reference" / "options.md").read_text()
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    shown = set(
        re.findall(r"^ +(?:-\w[ ,\w]*, )?(--[a-z-]+)", capsys.readouterr().out, re.MULTILINE)
    )
    assert {"--strategy", "--ranks"} <= shown
    assert shown - option_names() <= {"--help"}
    assert "`MATEX_CHECKPOINT_EVERY`" in page


def test_tables_are_what_the_code_says() -> None:
    assert [name_of(page) for page in docs.tools.tables.stale()] == [], "make tables"


def test_each_command_has_a_section() -> None:
    headings = re.findall(r"^## matex (\w+)$", command_sections(), re.MULTILINE)
    assert ["run", *headings] == list(make_parser()[1])


def test_options_exclude_each_other_as_the_checks_say() -> None:
    found = {setting.text.strip("`"): setting for setting in settings()}
    assert not compatible(found["--spares"], found["--balance"])
    assert not compatible(found["--compression powersgd:R"], found["--strategy gossip"])
    assert compatible(found["--compression"], found["--strategy gossip"])
    assert all(compatible(setting) for setting in found.values())


@pytest.mark.parametrize("path", [*DESIGN, DOCS / "pictures" / "flows.py"], ids=name_of)
def test_each_path_that_the_design_names_exists(path: Path) -> None:
    mark = "`" if path.suffix == ".md" else '"'
    named = re.findall(
        rf"{mark}((?:matex|ft|checkpoints|tests|examples|ci)/[\w/.]+){mark}", path.read_text()
    )
    assert [one for one in named if not (ROOT / one).exists()] == []


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_each_dotted_name_exists(path: Path) -> None:
    for module, name in re.findall(
        r"`(ft|checkpoints|matex(?:\.optimizers)?)\.(\w+)`", prose(path)
    ):
        found = importlib.import_module(module)
        is_module = (ROOT / module.replace(".", "/") / f"{name}.py").exists()
        assert is_module or name in found.__all__ or (ROOT / module / name).is_dir(), name


@pytest.mark.parametrize("path", TEXTS, ids=name_of)
def test_each_python_block_compiles(path: Path) -> None:
    for code in blocks(path, "python"):
        ast.parse(code)


def test_the_block_about_checkpoints_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = [c for c in blocks(DOCS / "guide" / "checkpoints.md", "python") if "Store" in c]
    exec(code, {})
    assert [path.name for path in (tmp_path / "saved").glob("*.h5")] == ["step-000000000.h5"]


def test_the_skeletons_of_extensions_run() -> None:
    for code in blocks(DOCS / "design" / "extending.md", "python"):
        exec(code, {"__name__": "skeleton"})


def test_the_plan_of_faults_is_one() -> None:
    (plan,) = blocks(DOCS / "guide" / "fault_injection.md", "text")
    kinds = [fault.kind for fault in ft.read_plan(plan.splitlines(), name="plan")]
    assert kinds == ["slow", "kill", "kill", "bitflip"]


def test_the_quickstart_shows_the_first_example() -> None:
    code = (ROOT / "examples" / "00_quickstart.py").read_text()
    assert len(code.splitlines()) <= 20
    for path in (ROOT / "README.md", DOCS / "quickstart.md"):
        assert code in blocks(path, "python"), name_of(path)


def test_readme_is_short_and_names_the_commands() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 180
    assert "make test" in text
    assert "make demo" in text


def test_pictures_are_what_the_code_draws() -> None:
    assert stale() == [], "make pictures"


def test_pictures_of_one_page_have_names_of_their_own() -> None:
    pictures = sorted((DOCS / "pictures").glob("*.svg"))
    text = on_page_content(
        "".join(f'<img alt="" src="../pictures/{path.name}">' for path in pictures)
    )
    names = re.findall(r'\bid="([^"]*)"', text)
    assert len(names) == len(set(names)) > 0
    assert set(re.findall(r"url\(#([^)]*)\)", text)) <= set(names)
