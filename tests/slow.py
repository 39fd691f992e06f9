"""Marks cases of a parametrised test as slow: they run with ``make test-all`` only."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest

__all__ = ["all_but"]


def all_but(quick: Collection[Any], values: Iterable[Any]) -> list[Any]:
    """*values* for ``parametrize``, of which those that are not in *quick* are slow.

    Where values are tuples, *quick* has their first elements.
    """
    marked = []
    for value in values:
        parts = value if isinstance(value, tuple) else (value,)
        is_quick = value in quick or (isinstance(value, tuple) and value and value[0] in quick)
        marked.append(value if is_quick else pytest.param(*parts, marks=pytest.mark.slow))
    return marked
