"""The checksum of TFRecord, against its definition and published values (RFC 3720, B.4)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matex.data.crc32c import crc32c, masked_crc32c


def bit_by_bit(data: bytes) -> int:
    register = 0xFFFFFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (0x82F63B78 if register & 1 else 0)
    return register ^ 0xFFFFFFFF


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"123456789", 0xE3069283),
        (b"", 0),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
)
def test_checksums_are_the_published_ones(data: bytes, value: int) -> None:
    assert crc32c(data) == value


@given(st.binary(max_size=300), st.integers(0, 40))
def test_long_strings_are_summed_in_lanes_to_the_same(data: bytes, times: int) -> None:
    data = data * times
    assert crc32c(data) == bit_by_bit(data)


def test_the_mask_is_that_of_a_written_file() -> None:
    """Length 0 of an empty record as TensorFlow writes it."""
    assert masked_crc32c(bytes(8)) == int.from_bytes(bytes.fromhex("29039807"), "little")
