"""Whether a run lacks ranks that could be started again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from matex.run.elastic_ranks import ElasticRanks


def elastic(*, size: int, grow_to: int, is_open: bool = False) -> ElasticRanks:
    communicator: Any = SimpleNamespace(world=SimpleNamespace(size=size))
    replacements: Any = SimpleNamespace(is_open=is_open)
    unused: Any = None
    return ElasticRanks(communicator, unused, unused, replacements, unused, None, grow_to=grow_to)


@pytest.mark.parametrize(
    ("size", "grow_to", "is_open", "short"),
    [(2, 3, False, True), (3, 3, False, False), (2, 0, False, False), (2, 3, True, False)],
)
def test_a_run_is_short_of_ranks_that_nobody_replaces(
    size: int, grow_to: int, is_open: bool, short: bool
) -> None:
    assert elastic(size=size, grow_to=grow_to, is_open=is_open).is_short == short


def test_a_run_that_never_regrows_is_not_short() -> None:
    ranks = elastic(size=2, grow_to=3)
    ranks.never_regrow()
    assert not ranks.is_short
