"""Digests by which ranks compare their batches."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from matex.sources.digests import digest, older_digest


def written(*fields: str) -> bytes:
    """Protocol buffer with the *fields* of an example in the order given."""
    features = {name: tf.train.Feature(int64_list=tf.train.Int64List(value=[5])) for name in fields}
    parts = [
        tf.train.Features(feature={name: features[name]}).SerializeToString() for name in fields
    ]
    return b"".join(parts)


def of_strings(*strings: bytes) -> int:
    return digest(0, [tf.constant(strings)], last=False)


def test_digest_of_fields_in_another_order() -> None:
    """Each process writes the fields of one protocol buffer in an order of its own."""
    assert written("x", "y") != written("y", "x")
    assert of_strings(written("x", "y"), b"") == of_strings(written("y", "x"), b"")


@pytest.mark.parametrize(
    "others",
    [(b"abc", b"dee"), (b"abc", b"de"), (b"def", b"abc"), (b"abcdef", b""), (b"abc", b"def", b"")],
)
def test_digest_of_other_strings(others: tuple[bytes, ...]) -> None:
    assert of_strings(b"abc", b"def") != of_strings(*others)


def test_digest_of_large_batches_that_differ_in_one_value() -> None:
    same = tf.zeros(3 << 14)
    other = tf.one_hot(1, 3 << 14)
    found = []
    for batches in ([same] * 40, [same] * 20 + [other] * 20):
        number = 0
        for batch in batches:
            number = digest(number, [batch], last=False)
        found.append(number)
    assert found[0] != found[1]


def test_digest_of_older_checkpoints() -> None:
    """A checkpoint that version 5b7403b1 had made of these batches had this number."""
    number = 0
    words = tf.constant([b"a", b"bc"])
    for n in range(3):
        values = np.arange(5 << 14, dtype=np.float32).reshape(-1, 4) * (n + 1)
        number = older_digest(number, [tf.constant(values), words], last=n == 2)
    assert number == 5358167898610216500
