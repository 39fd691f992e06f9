"""The choice between one allreduce and slices."""

from __future__ import annotations

import pytest

from matex.config.option import options_of
from matex.config.options import RankOptions
from matex.exchange.codecs import FORMAT_NUMBERS
from matex.exchange.plan import PLANS, is_sliced


@pytest.mark.parametrize(
    ("plan", "size", "hosts", "compressed", "wanted"),
    [
        ("auto", 4, 1, False, False),
        ("auto", 4, 2, False, True),
        ("auto", 4, 1, True, True),
        ("auto", 500, 500, False, False),
        ("flat", 4, 2, False, False),
        ("slices", 4, 1, False, True),
        ("slices", 1, 1, True, False),
    ],
)
def test_where_members_send_each_other_slices(
    plan: str, size: int, hosts: int, compressed: bool, wanted: bool
) -> None:
    assert is_sliced(plan, size=size, hosts=hosts, compressed=compressed) is wanted


def test_the_options_offer_what_there_is() -> None:
    choices = {option.name: option.choices for option in options_of(RankOptions)}
    assert choices["exchange_plan"] == PLANS
    (compression,) = (o for o in options_of(RankOptions) if o.name == "compression")
    for name in (*FORMAT_NUMBERS, "powersgd:1"):
        assert compression.take(name) == name
