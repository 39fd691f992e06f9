"""Answers to newcomers that have reached a fit."""

from __future__ import annotations

from typing import Any

import pytest

from matex.run.waiting_newcomers import WaitingNewcomers
from matex.run.welcome import DATA, FIT, OVER, TRAINED

HISTORY = {"loss": [1.0]}


class Comer:
    """A newcomer that notes what it is told."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.heard: list[dict[str, Any]] = []
        self.failure = ""

    def tell(self, message: dict[str, Any]) -> None:
        self.heard.append(message)

    def give_up(self, reason: str) -> None:
        self.failure = reason


def at(fit: int, *, trained: int = 2, data: float = 1.0) -> dict[str, Any]:
    return {FIT: fit, TRAINED: [trained], DATA: [data]}


@pytest.fixture
def waiting_newcomers() -> WaitingNewcomers:
    own = WaitingNewcomers()
    own.note_history(0, HISTORY)
    own.open(2, [2], [1.0])
    return own


def answered(waiting_newcomers: WaitingNewcomers, comer: Comer, message: dict[str, Any]) -> bool:
    return waiting_newcomers.answer(comer, message)  # type: ignore[arg-type]


def test_the_lowest_rank_of_the_running_fit_is_taken(waiting_newcomers: WaitingNewcomers) -> None:
    comers = [Comer(7), Comer(5)]
    assert all(answered(waiting_newcomers, comer, at(2)) for comer in comers)
    assert waiting_newcomers.take().rank == 5
    assert waiting_newcomers.are_waiting
    waiting_newcomers.forget(comers[0])  # type: ignore[arg-type]
    assert not waiting_newcomers.are_waiting


def test_a_fit_that_is_over_is_told_with_its_history(waiting_newcomers: WaitingNewcomers) -> None:
    late = Comer(5)
    assert answered(waiting_newcomers, late, at(0))
    assert late.heard == [{OVER: HISTORY}]
    assert not waiting_newcomers.are_waiting


def test_those_that_wait_too_long_are_told_when_the_next_fit_begins(
    waiting_newcomers: WaitingNewcomers,
) -> None:
    late = Comer(5)
    answered(waiting_newcomers, late, at(2))
    waiting_newcomers.note_history(2, HISTORY)
    assert not waiting_newcomers.are_waiting
    assert not late.heard
    waiting_newcomers.open(3, [2], [1.0])
    assert late.heard == [{OVER: HISTORY}]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (at(1), "fit number 2 ended in an error"),
        (at(2, trained=4), "models that were trained before"),
        (at(2, data=3.0), "its data for this fit"),
    ],
)
def test_a_newcomer_that_differs_gives_up(
    waiting_newcomers: WaitingNewcomers, message: dict[str, Any], reason: str
) -> None:
    comer = Comer(5)
    assert not answered(waiting_newcomers, comer, message)
    assert reason in comer.failure
    assert not waiting_newcomers.are_waiting


def test_a_newcomer_waits_for_a_fit_that_is_to_come(waiting_newcomers: WaitingNewcomers) -> None:
    assert answered(waiting_newcomers, Comer(5), at(3, trained=9))
    assert waiting_newcomers.are_waiting
