"""The range of Keras and TensorFlow that is tested, and what lies outside of it."""

from __future__ import annotations

import pytest

from ci.keras_suite import matrix
from matex.keras_hooks.versions import KERAS, TENSORFLOW, TESTED, outside


@pytest.mark.parametrize(
    ("keras", "tensorflow", "expected"),
    [
        ("3.12.0", "2.20.0", ""),
        ("3.15.9", "2.21.0", ""),
        ("3.15.0.dev20261101", "2.21.0-rc1", ""),
        ("3.11.3", "2.21.0", "Keras 3.11.3"),
        ("3.16.0", "2.21.0", "Keras 3.16.0"),
        ("4.0", "2.19.1", "Keras 4.0 and TensorFlow 2.19.1"),
        ("3.9.2", "2.100.0", "Keras 3.9.2 and TensorFlow 2.100.0"),
    ],
)
def test_a_release_that_no_test_has_seen_is_named(
    keras: str, tensorflow: str, expected: str
) -> None:
    assert outside(keras=keras, tensorflow=tensorflow) == expected


def test_the_matrix_tries_both_ends_of_what_is_said_to_be_tested() -> None:
    releases = [pair.keras.rpartition(".")[0] for pair in matrix.PAIRS]
    assert (releases[0], releases[-1]) == KERAS
    assert {p.tensorflow.rpartition(".")[0] for p in matrix.PAIRS} == set(TENSORFLOW)
    assert all(version in TESTED for version in (*KERAS, *TENSORFLOW))


def test_a_pair_of_the_matrix_decides_what_the_constraints_do_not() -> None:
    text = "# all\nkeras==3.15.1 ; python_version > '3'\nnumpy==2.4.6\ntensorflow-cpu==2.21.0\n"
    assert matrix.constraints(text) == "# all\nnumpy==2.4.6\n"


def test_the_table_names_what_failed() -> None:
    good = matrix.Outcome(matrix.PAIRS[0], passed=5, seconds=61.2)
    bad = matrix.Outcome(matrix.PAIRS[1], 4, ("script_kinds::gan",), 1, 70, "1 tests failed")
    lines = matrix.table([good, bad]).splitlines()
    assert lines[1].split() == ["3.12.4", "2.21.0", "5", "0", "0", "61", "ok"]
    assert lines[2].endswith("1 tests failed")
    assert lines[3].strip() == "script_kinds::gan"
