"""Assignments that are taken back."""

from __future__ import annotations

import pytest

from matex.steps.rollback import Assignments

tf = pytest.importorskip("tensorflow")


def test_they_are_taken_back_whoever_made_them() -> None:
    mean, count, text = tf.Variable([1.0, 2.0]), tf.Variable(3, dtype=tf.int64), tf.Variable("a")

    @tf.function
    def counted() -> None:
        count.assign_add(1)

    assignments = Assignments()
    for _ in range(2):  # the second time it is traced no more
        with assignments.noted():
            mean.assign(mean * 2)
            mean.scatter_update(tf.IndexedSlices(tf.constant([9.0]), tf.constant([0])))
            text.assign("b")
            counted()
        assert len(assignments.put_back()) == 3
        assert (mean.numpy().tolist(), int(count), text.numpy()) == ([1.0, 2.0], 3, b"a")
    mean.assign([5.0, 5.0])
    assert assignments.put_back() == []
    assert mean.numpy().tolist() == [5.0, 5.0]


def test_final_ones_and_those_of_a_variable_that_stays_are_not() -> None:
    final, stays = tf.Variable(0.0), tf.Variable(0.0)
    assignments = Assignments()
    with assignments.noted():
        final.assign(1.0)
        with assignments.final():
            final.assign(2.0)
        stays.assign(1.0)
    assert assignments.put_back(but=stays) == []
    assert (float(final), float(stays)) == (2.0, 1.0)


def test_forgotten_assignments_are_not_put_back() -> None:
    variable = tf.Variable(0.0)
    assignments = Assignments()
    with assignments.noted():
        variable.assign(1.0)
    assignments.forget()
    assert assignments.put_back() == []
    assert float(variable) == 1.0
