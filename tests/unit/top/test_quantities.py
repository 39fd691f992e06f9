"""Numbers for people."""

from __future__ import annotations

import pytest

from matex.top.quantities import bytes_in_words, duration, milliseconds


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-1.0, "0.0 s"),
        (0.26, "0.3 s"),
        (9.96, "10 s"),
        (59.6, "1 min 00 s"),
        (125, "2 min 05 s"),
        (3599.7, "1 h 00 min"),
        (2 * 86400, "2 d 00 h"),
        (47.99 * 3600, "47 h 59 min"),
    ],
)
def test_durations_are_given_in_two_units(seconds: float, said: str) -> None:
    assert duration(seconds) == said


@pytest.mark.parametrize(
    ("seconds", "said"), [(None, ""), (0.0, "0"), (0.01234, "12.3"), (0.0999, "99.9"), (2, "2,000")]
)
def test_milliseconds_have_as_many_digits_as_they_need(seconds: float | None, said: str) -> None:
    assert milliseconds(seconds) == said


@pytest.mark.parametrize(
    ("count", "said"),
    [(None, ""), (12, "12 B"), (999_600, "1 MB"), (1_234_567_890, "1.23 GB"), (5e15, "5e+03 TB")],
)
def test_bytes_are_given_in_decimal_units(count: int | None, said: str) -> None:
    assert bytes_in_words(count) == said
