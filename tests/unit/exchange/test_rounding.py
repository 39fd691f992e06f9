"""16-bit numbers for the exchange: nearest, NaN kept, and what is lost can be sent later."""

from __future__ import annotations

import numpy as np
import pytest

from matex.exchange.rounding import FORMATS

RELATIVE = {"fp16": 2.0**-11, "bf16": 2.0**-8}


@pytest.mark.parametrize("name", FORMATS)
def test_the_nearest_number_is_sent(name: str) -> None:
    values = np.random.default_rng(0).normal(size=10_000).astype(np.float32)
    codes = FORMATS[name].encode(values)
    assert codes.dtype == np.uint16
    found = FORMATS[name].decode(codes)
    assert found.dtype == np.float32
    assert (np.abs(found - values) <= RELATIVE[name] * np.abs(values) + 2.0**-25).all()
    np.testing.assert_array_equal(FORMATS[name].encode(found), codes)


def test_bfloat16_rounds_to_even_as_others_do() -> None:
    bits = np.array([0x3F808000, 0x3F818000, 0x3F808001, 0xBF807FFF], np.uint32)
    codes = FORMATS["bf16"].encode(bits.view(np.float32))
    assert codes.tolist() == [0x3F80, 0x3F82, 0x3F81, 0xBF80]


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_no_number_stays_so_and_what_is_too_large_is_cut(name: str) -> None:
    code = FORMATS[name]
    values = np.array([np.nan, 0.0, -0.0, 7e4, -np.inf], np.float32)
    found = code.decode(code.encode(values))
    assert np.isnan(found[0])
    assert found[1:3].tolist() == [0, 0]
    assert np.isfinite(found[3])
    assert found[4] == -np.inf


@pytest.mark.parametrize("name", FORMATS)
def test_error_feedback_loses_nothing_over_time(name: str) -> None:
    """Sums of what was sent follow sums of what was meant, also of tiny and of huge numbers."""
    code = FORMATS[name]
    meant = np.array([1e-9, 1.0001, -3.3e-5, 6.6e4], np.float32)
    kept = np.zeros_like(meant)
    sent = np.zeros(4)
    for _ in range(1000):
        wanted = meant + kept
        rounded = code.decode(code.encode(wanted))
        kept = wanted - rounded
        sent += rounded
        if name == "fp16":
            meant[3] = 100.0  # more than fits, once: the rest comes later
    total = 1000 * meant.astype(np.float64)
    if name == "fp16":
        total[3] = 66_000 + 999 * 100
    np.testing.assert_allclose(sent[1:], total[1:], rtol=2e-3)
    assert abs(sent[0] - total[0]) <= 6e-8
