"""The table of the strategies, and the options that name them."""

from __future__ import annotations

import re
from pathlib import Path

import matex.strategies
from matex.config.options import STRATEGIES as WORDS
from matex.strategies import STRATEGIES


def test_every_row_has_its_word_on_the_command_line() -> None:
    assert tuple(STRATEGIES) == WORDS


def test_strategies_do_not_import_each_other() -> None:
    """So that a new one is one file; only the table knows all of them."""
    folder = Path(matex.strategies.__file__).parent
    for name in STRATEGIES:
        text = (folder / f"{name}.py").read_text()
        imported = set(re.findall(r"from matex\.strategies\.(\w+) import", text))
        assert not imported & (STRATEGIES.keys() - {name}), name
