"""Public names have complete docstrings, and the examples of `checkpoints` give what they say.

Those of `ft` run on ranks (tests/mpi/test_examples.py), those of `matex` on ranks with Keras
(tests/train/whole_runs/test_public_examples.py).
"""

from __future__ import annotations

import ast
import doctest
import tempfile
from pathlib import Path

import numpy as np
import pytest

import checkpoints
from ci.jobs import ROOT
from ci.testing.public_names import PACKAGES, Public, lacking, public_names

NAMES = public_names(ROOT)


def test_no_public_name_lacks_a_section() -> None:
    assert lacking(ROOT) == []


def test_all_public_functions_and_classes_are_looked_at() -> None:
    assert {public.package for public in NAMES} == set(PACKAGES)
    looked_at = {public.name for public in NAMES if public.package == "checkpoints"}
    assert looked_at == set(checkpoints.__all__)


@pytest.mark.parametrize(
    "public", [p for p in NAMES if p.package == "checkpoints"], ids=lambda public: public.name
)
def test_the_example_gives_what_it_says(public: Public) -> None:
    text = ast.get_docstring(public.node) or ""
    given = {"checkpoints": checkpoints, "np": np, "tempfile": tempfile, "Path": Path}
    example = doctest.DocTestParser().get_doctest(text, given, public.name, None, None)
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(example, out=said.append)
    assert not runner.failures, "".join(said)


def lacks(text: str, *, tmp_path: Path) -> list[str]:
    package = tmp_path / "ft"
    package.mkdir()
    (package / "__init__.py").write_text('__all__ = ["one"]\nfrom ft.two import one\n')
    (package / "two.py").write_text(text)
    for other in PACKAGES[1:]:
        folder = tmp_path / other.replace(".", "/")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "__init__.py").write_text("__all__ = []\n")
    return [line.partition("): ")[2] for line in lacking(tmp_path)]


COMPLETE = '''
def one(size: int, *, name: str = "") -> int:
    """Add.

    Args:
        size: number of things.
        name: text.

    Returns:
        A number.

    Raises:
        ValueError: no.

    Example:
        >>> one(1)
    """
    raise ValueError(size)
'''


@pytest.mark.parametrize(
    ("without", "told"),
    [
        ("Nothing", []),
        ("        size: number of things.\n", ["argument size"]),
        ("Returns", ["Returns"]),
        ("Raises", ["Raises"]),
        ("Example", ["Example"]),
    ],
)
def test_what_is_missing_is_told(tmp_path: Path, without: str, told: list[str]) -> None:
    assert lacks(COMPLETE.replace(without, ""), tmp_path=tmp_path) == told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def one() -> None: pass\n", ["a docstring"]),
        (
            'def one(a):\n    """Do; see :func:`two`."""\ndef two(a): ...\n',
            ["Example", "a docstring"],
        ),
        (
            'def one(a):\n    """Do; see :meth:`K.two`."""\n',
            ["Example", "K.two, to be seen instead"],
        ),
        ('class one(Exception):\n    """It failed."""\n', []),
        (
            'class one:\n    """It.\n\n    Example:\n    """\n    def do(self): ...\n',
            ["do: a docstring"],
        ),
        (
            '@dataclass\nclass one:\n    """It.\n\n    Attributes:\n        a: b.\n\n'
            '    Example:\n    """\n    a: int\n    c: int\n',
            ["argument c"],
        ),
    ],
)
def test_classes_and_bare_functions(tmp_path: Path, text: str, told: list[str]) -> None:
    assert lacks(text, tmp_path=tmp_path) == told
