"""The table of the strategies, and the options that name them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import matex.strategies
from matex.config import Config
from matex.config.options import STRATEGIES as WORDS
from matex.strategies import STRATEGIES, StrategyContext, make_strategy
from matex.strategies.rules.centre import CentreRule, Push, WorkerMemory


def test_every_row_has_its_word_on_the_command_line() -> None:
    assert tuple(STRATEGIES) == WORDS


def test_strategies_do_not_import_each_other() -> None:
    """So that a new one is one file; only the table knows all of them."""
    folder = Path(matex.strategies.__file__).parent
    for name in STRATEGIES:
        text = (folder / f"{name}.py").read_text()
        imported = set(re.findall(r"from matex\.strategies\.(\w+) import", text))
        assert not imported & (STRATEGIES.keys() - {name}), name


def rule_of(**options: Any) -> CentreRule:
    """The rule of the strategy that *options* make; nothing is sent before the first step."""
    unused: Any = None
    strategy = make_strategy(
        StrategyContext(
            communicator=unused, replica=unused, options=Config(**options), seed=0, epochs=1
        )
    )
    rule: CentreRule = vars(strategy)["_rule"]
    return rule


@pytest.mark.parametrize(("given", "force"), [({}, 0.9), ({"elastic_force": 0.4}, 0.4)])
def test_the_elastic_force_is_that_of_all_ranks_together(
    given: dict[str, float], force: float
) -> None:
    """Each of four ranks is pulled by a quarter of it, and the centre by all; also in turn."""
    rule = rule_of(strategy="easgd", **given)
    weights, centre = np.array([5.0]), np.array([1.0])
    after, moved = rule.meet(weights, np.array([3.0]), centre, share=1 / 4)
    np.testing.assert_allclose((after, moved), ([5 - force / 4 * 4], [1 + force * 2]))
    pushed, memory = rule.push(weights, 1 / 4, WorkerMemory(np.empty(0)))
    (moved,) = rule.serve(centre, [Push(pushed, 1 / 4, 0)], groups=4)
    shift, _ = rule.apply(moved, memory)
    np.testing.assert_allclose((weights + shift, moved), ([5 - force / 4 * 4], [1 + force]))
