"""One bit of one number, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matex.steps.bitflips import flipped


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "uint8"])
@given(place=st.integers(0, 2**40), bit=st.integers(0, 31))
def test_exactly_one_bit_flips_and_flips_back(dtype: str, place: int, bit: int) -> None:
    value = np.arange(1, 8).astype(dtype)
    changed = flipped(value, place=place, bit=bit)
    differing = np.bitwise_xor(value.view(np.uint8), changed.view(np.uint8))
    assert sum(int(byte).bit_count() for byte in differing) == 1
    assert flipped(changed, place=place, bit=bit).tobytes() == value.tobytes()
