"""The choice between one allreduce and slices."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import matex.exchange
from matex.config.compressions import COMPRESSIONS
from matex.config.option import options_of
from matex.config.options import RankOptions
from matex.exchange.codecs import FORMAT_NUMBERS
from matex.exchange.plan import PLANS, is_sliced
from matex.exchange.reductions import REDUCTIONS


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
    assert COMPRESSIONS.keys() == REDUCTIONS.keys()
    native = {name for name, row in COMPRESSIONS.items() if not row.by_numpy}
    assert native == FORMAT_NUMBERS.keys()


def test_the_native_exchange_knows_the_formats_by_the_same_numbers() -> None:
    text = (Path(matex.exchange.__file__).parent / "numbers.h").read_text()
    (rows,) = re.findall(r"^enum Codec \{(.*)\};$", text, re.MULTILINE)
    numbers = {name: int(number) for name, number in re.findall(r"k(\w+) = (\d+)", rows)}
    words = {"none": "Plain", "fp16": "Half", "bf16": "Bfloat16", "int8": "Int8"}
    assert {words[name]: number for name, number in FORMAT_NUMBERS.items()} == numbers
