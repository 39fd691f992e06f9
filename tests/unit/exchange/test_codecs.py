"""Formats between hosts: how far a number is from what comes of it, and what is no number."""

from __future__ import annotations

import numpy as np
import pytest

from matex.exchange.codecs import CODECS, FORMAT_NUMBERS
from matex.exchange.route import BLOCK


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("count", [1, BLOCK - 1, BLOCK, 3 * BLOCK + 5])
def test_numbers_come_back_about_as_they_were(name: str, count: int) -> None:
    codec = CODECS[name]
    values = np.random.default_rng(count).normal(size=count).astype(np.float32)
    codes = codec.encode(values)
    assert codes.dtype == np.uint8
    assert codes.nbytes == codec.nbytes(count)
    found = codec.decode(codes, count)
    assert found.dtype == np.float32
    bound = 2.0**-8 * np.abs(values) + (np.abs(values).max() / 254 if name == "int8" else 1e-7)
    assert (np.abs(found - values) <= 1.001 * bound).all()


def test_a_large_number_spoils_its_block_alone() -> None:
    codec = CODECS["int8"]
    values = np.full(2 * BLOCK, 1e-3, np.float32)
    values[0] = 1e6
    found = codec.decode(codec.encode(values), values.size)
    assert found[0] == pytest.approx(1e6)
    assert not found[1:BLOCK].any()
    np.testing.assert_allclose(found[BLOCK:], 1e-3, rtol=1e-6)


@pytest.mark.parametrize("name", CODECS)
def test_nothing_but_zeros_stays_so(name: str) -> None:
    codec = CODECS[name]
    assert not codec.decode(codec.encode(np.zeros(300, np.float32)), 300).any()


def test_every_format_has_a_number_of_its_own() -> None:
    assert set(FORMAT_NUMBERS) == {"none", *CODECS}
    assert len(set(FORMAT_NUMBERS.values())) == len(FORMAT_NUMBERS)
