"""Has the ranks of these tests forked, where that is asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.train.forks import forked_ranks
from tests.train.runs import PATHS


@pytest.fixture(scope="session", autouse=True)
def ranks_are_forked(request: pytest.FixtureRequest) -> Iterator[None]:
    """Start the servers with the first test, if ``--fork-ranks`` is given."""
    if not request.config.getoption("--fork-ranks"):
        yield
        return
    with forked_ranks(PATHS):
        yield
