"""Has the ranks of these tests forked, where that is asked for, and hooks put in place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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


@pytest.fixture
def optimizers_that_can_be_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hook that a run puts into optimizers, for a test."""
    import keras

    from matex.keras_hooks import optimizers

    original = keras.optimizers.Optimizer.apply

    def apply(optimizer: Any, gradients: Any, variables: Any = None) -> Any:
        instead = optimizers.in_place_of_apply()
        if optimizers.is_updating() or instead is None:
            return original(optimizer, gradients, variables)
        return instead(optimizer, list(gradients), variables)

    monkeypatch.setattr(keras.optimizers.Optimizer, "apply", apply)
