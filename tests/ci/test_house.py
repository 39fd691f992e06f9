"""The counts of make lint: each finds what it is to find, and nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ci.testing import house, import_graph


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small tree of packages with one offence of each kind."""
    files = {
        "ft/__init__.py": '__all__ = ["bare"]\ndef bare(): ...\n',
        "checkpoints/__init__.py": "",
        "matex/__init__.py": "",
        "matex/loose.py": "import matex\n",
        "matex/steps/__init__.py": "",
        "matex/steps/one.py": (
            "from typing import TYPE_CHECKING\n"
            "if TYPE_CHECKING:\n"
            "    from matex.steps.two import Name\n"
            "class _Name:\n"
            '    """Of what?"""\n'
            "def where():\n"
            '    """Where it is."""\n'
        ),
        "matex/steps/two.py": (
            "class Name:\n"
            '    """A name.\n\n'
            "    Args:\n"
            "        first: that of the second,\n"
            "            of which there is one.\n"
            "        second: name of the first.\n"
            "        third: how many there are.\n\n"
            "    Raises:\n"
            "        Error: of all kinds.\n"
            '    """\n'
            "def late():\n"
            "    from .one import _Name\n"
            "    import tensorflow as tf\n"
        ),
        "matex/steps/own_loops.py": (
            "class _StepTail: ...\nclass Detail: ...\nclass Trial: ...\nclass Own: ...\n"
        ),
        "docs/design/old_names.md": (
            "# Old names\n\n| Old | The field's word |\n"
            "| --- | --- |\n| tail, trial (of a step), own loop | auxiliary part, detail |\n"
        ),
        "ci/long.py": "\n" * 301,
        "ci/short.py": "\n" * 300,
        "README.md": "line\n" * 182,
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_each_count_finds_its_offence_and_no_other(root: Path) -> None:
    found = {name: limit.find(root) for name, limit in house.LIMITS.items()}
    assert found["loose modules"] == ["matex/__init__.py", "matex/loose.py"]
    assert found["long modules"] == ["ci/long.py: 301 lines"]
    assert found["import circles"] == ["matex.steps.one matex.steps.two"]
    assert found["doubled classes"] == ["Name: matex/steps/one.py:4 matex/steps/two.py:1"]
    assert found["old names"] == [
        "matex/steps/own_loops.py",
        "matex/steps/own_loops.py:1: _StepTail",
    ]
    assert found["fragments"] == [
        "matex/steps/one.py:4: Of what?",
        "matex/steps/two.py:1: first: that of the second,",
    ]
    assert found["openings without noun"] == ["matex/steps/one.py:6: Where it is."]
    assert found["arguments without noun"] == ["matex/steps/two.py:1: third: how many there are."]
    assert found["public docstrings"] == ["ft.bare (ft/__init__.py:2): a docstring"]
    assert found["backend modules"] == ["matex.steps.two"]
    assert found["stray backend packages"] == []
    assert set(found["idle backend packages"]) == house.BACKEND_PACKAGES - {"steps"}
    assert found["README lines too many"] == ["line", "line"]
    assert found["long commit subjects"] == found["commits without body"] == []  # no repository


def test_the_commits_of_a_shallow_and_detached_clone_are_looked_at(tmp_path: Path) -> None:
    def git(*words: str, date: str = "2027-01-01T00:00:00+0000") -> None:
        names = {"NAME": "a", "EMAIL": "a@b.c", "DATE": date}
        environment = {
            f"GIT_{who}_{k}": v for who in ("AUTHOR", "COMMITTER") for k, v in names.items()
        }
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True, env=environment)

    git("init", "-q", "origin")
    for subject, date in (
        ("o" * 73, "2026-01-01T00:00:00+0000"),
        ("a" * 72, "2027-01-01T00:00:00+0000"),
    ):
        git("-C", "origin", "commit", "-q", "--allow-empty", "-m", subject, date=date)
    assert house.long_subjects(tmp_path / "origin") == []
    git("-C", "origin", "commit", "-q", "--allow-empty", "-m", "b" * 73)
    git("clone", "-q", "--depth=1", f"file://{tmp_path}/origin", "clone")
    git("-C", "clone", "checkout", "-q", "--detach")
    (line,) = house.long_subjects(tmp_path / "clone")
    assert line.endswith(" " + "b" * 73)
    assert house.bare_commits(tmp_path / "clone") == [line]
    git("-C", "clone", "commit", "-q", "--amend", "--allow-empty", "-m", "Say", "-m", "Because.")
    assert house.bare_commits(tmp_path / "clone") == []


def test_circles_of_two_and_three_are_told_apart() -> None:
    graph = {"a": {"b"}, "b": {"a", "c"}, "c": {"d"}, "d": {"e"}, "e": {"c"}, "f": {"a"}}
    assert import_graph.circles(graph) == [["a", "b"], ["c", "d", "e"]]
