"""Has the ranks of these tests forked, where that is asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.train.forks import ALONE, forked_ranks
from tests.train.runs import PATHS


@pytest.fixture(scope="session")
def ranks_are_forked(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Start the server with the first test, if ``--fork-ranks`` is given."""
    if not request.config.getoption("--fork-ranks"):
        yield False
        return
    with forked_ranks(PATHS):
        yield True


@pytest.fixture(scope="module", autouse=True)
def ranks_of_this_module(request: pytest.FixtureRequest, ranks_are_forked: bool) -> Iterator[None]:
    """Let ranks start alone where the module says ``RANKS_START_ALONE = True``."""
    if not ranks_are_forked or not getattr(request.module, "RANKS_START_ALONE", False):
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ALONE.items():
            patch.setenv(name, value)
        yield
