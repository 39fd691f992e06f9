"""Has the ranks of these tests forked, where that is asked for, and hooks put in place."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(scope="module", autouse=True)
def ranks_of_this_module(forked_ranks: None) -> None:
    """Have ranks forked."""


@pytest.fixture
def optimizers_that_can_be_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hook that a run puts into optimizers, for a test."""
    import keras

    from matex.keras_hooks import permitted_updates

    original = keras.optimizers.Optimizer.apply

    def apply(optimizer: Any, gradients: Any, variables: Any = None) -> Any:
        instead = permitted_updates.in_place_of_apply()
        if permitted_updates.is_updating() or instead is None:
            return original(optimizer, gradients, variables)
        return instead(optimizer, list(gradients), variables)

    monkeypatch.setattr(keras.optimizers.Optimizer, "apply", apply)
