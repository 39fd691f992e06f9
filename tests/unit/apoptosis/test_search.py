"""The search of removals: its trials, their order, and the accepted removals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from matex.apoptosis.graph.trace import Group
from matex.apoptosis.group_statistics import Removal
from matex.apoptosis.search import Candidate, search

UNITS, TAU = 40, 0.01


def candidate(number: int, least: float = 0.0) -> Candidate:
    """A group of which each unit costs a tenth of tau, and none less than *least*."""
    group = Group(f"g{number}", np.arange(UNITS), (), True, (), ())
    costs = np.maximum(least, TAU / 10) * np.arange(1, 36)
    removal = Removal(np.arange(35, UNITS), np.arange(35), costs)
    return Candidate(number, group, removal, TAU)


class Network:
    """A network whose loss is 1, and rises by a price for each unit of a group that is gone."""

    def __init__(self, *prices: float, sizes: Sequence[float] = (1, 1, 1)) -> None:
        self.prices = prices
        self.sizes = sizes
        self.gone = [0] * len(prices)
        self.tried: list[list[int]] = []
        self._last: list[tuple[int, int]] = []

    def apply(self, some: Sequence[Candidate]) -> None:
        self._last = [(one.number, self.gone[one.number]) for one in some]
        for one in some:
            self.gone[one.number] = len(one.removal.removed)

    def undo(self) -> None:
        for number, gone in self._last:
            self.gone[number] = gone

    def accept(self) -> None:
        assert self.tried[-1] == self.gone

    def saving(self, one: Candidate) -> float:
        return self.sizes[one.number]

    def loss(self) -> float:
        self.tried.append(list(self.gone))
        return 1 + sum(p * n for p, n in zip(self.prices, self.gone, strict=True))


def outcome(network: Network, allowed: float, *, adapts: bool = True) -> list[tuple[float, bool]]:
    found = [candidate(i) for i in range(len(network.prices))]
    verdicts, loss = search(found, network, before=1.0, allowed=allowed, adapts=adapts)
    assert loss == network.loss() <= allowed
    network.tried.pop()
    assert [v.candidate.number for v in verdicts] == list(range(len(found)))
    for verdict in verdicts:
        died = len(verdict.candidate.removal.removed)
        assert network.gone[verdict.candidate.number] == (died if verdict.kept else 0)
    return [(verdict.part, verdict.kept) for verdict in verdicts]


def test_what_the_loss_allows_is_tried_once() -> None:
    network = Network(0.01, 0.01)
    assert outcome(network, 1.3) == [(1.0, True)] * 2
    assert network.tried == [[10, 10]]


def test_where_it_hardly_rises_more_goes() -> None:
    network = Network(0.01, 0.01)
    assert outcome(network, 1.7) == [(3.0, True)] * 2
    assert network.tried == [[10, 10], [30, 30]]
    assert outcome(Network(0.01, 0.01), 1.7, adapts=False) == [(1.0, True)] * 2


def test_more_that_is_too_much_is_taken_back_to_what_was_allowed() -> None:
    class Steep(Network):
        def loss(self) -> float:
            return super().loss() + (9.0 if max(self.gone) > 10 else 0.0)

    network = Steep(0.01, 0.01)
    assert outcome(network, 1.7) == [(1.0, True)] * 2
    assert network.tried == [[10, 10], [30, 30]], "in between no unit would go"
    assert network.gone == [10, 10]


def test_where_more_is_too_much_as_much_goes_as_the_loss_says() -> None:
    class Curved(Network):
        def loss(self) -> float:
            self.tried.append(list(self.gone))
            return 1 + sum(p * n * n for p, n in zip(self.prices, self.gone, strict=True))

    network = Curved(1e-5, 1e-3, 1e-5)
    assert outcome(network, 1.6) == [(pytest.approx(1.98, abs=0.01), True)] * 3
    assert network.tried == [[10] * 3, [30] * 3, [19] * 3]


def test_of_more_that_no_number_tells_about_nothing_goes() -> None:
    class Broken(Network):
        def loss(self) -> float:
            return super().loss() + (np.nan if max(self.gone) > 10 else 0.0)

    network = Broken(0.01, 0.01)
    assert outcome(network, 1.7) == [(1.0, True)] * 2
    assert network.tried == [[10, 10], [30, 30]]


def test_a_group_that_costs_too_much_keeps_its_units_and_the_others_do_not() -> None:
    network = Network(0.01, 9.0, 0.01)
    assert outcome(network, 1.4) == [(1.0, True), (1.0, False), (1.0, True)]
    assert network.tried == [[10, 10, 10], [10, 0, 0], [10, 10, 0], [10, 0, 10]]


def test_of_a_group_that_costs_too_much_as_many_go_as_its_share_should_pay() -> None:
    network = Network(0.01, 0.05, 0.01)
    assert outcome(network, 1.4) == [(1.0, True), (pytest.approx(0.32), True), (1.0, True)]
    assert network.tried[-1] == network.gone == [10, 3, 10]


def test_what_others_leave_of_their_shares_is_not_lost() -> None:
    network = Network(0.02, 0.0, 0.0)
    assert outcome(network, 1.19) == [(pytest.approx(0.76), True), (1.0, True), (1.0, True)]
    assert network.tried[-1] == network.gone == [7, 10, 10]


def test_a_group_gets_by_the_root_of_what_the_network_shrinks_by() -> None:
    network = Network(0.02, 0.02, sizes=(9, 1))
    assert outcome(network, 1.3) == [(1.0, True), (pytest.approx(0.4), True)]
    assert network.tried == [[10, 10], [0, 10], [10, 0], [10, 4]]
    network = Network(0.04, 0.04, sizes=(9, 1))
    assert outcome(network, 1.2) == [(pytest.approx(0.3), True), (1.0, False)]


def test_less_of_all_goes_where_no_group_can() -> None:
    network = Network(0.01, 0.01)
    assert outcome(network, 1.08) == [(pytest.approx(0.32), True)] * 2
    assert network.tried == [[10, 10], [10, 0], [0, 10], [3, 3]]
    network = Network(0.01)
    assert outcome(network, 1.03) == [(pytest.approx(0.24), True)]
    assert network.tried == [[10], [2]]


def test_where_less_of_all_is_still_too_much_nothing_goes() -> None:
    class Joint(Network):
        def loss(self) -> float:
            return super().loss() + (1.0 if all(self.gone) else 0.0)

    network = Joint(0.01, 0.01)
    assert outcome(network, 1.08) == [(pytest.approx(0.32), False)] * 2
    assert network.tried[3:] == [[3, 3]]


def test_a_group_of_which_too_few_would_go_is_left() -> None:
    dear = candidate(1, least=TAU / 4)  # 4 of 40 at tau, 1 at a third of it
    verdicts, _ = search(
        [candidate(0), dear], Network(0.01, 0.04), before=1.0, allowed=1.08, adapts=True
    )
    assert [(v.candidate.number, v.part, v.kept) for v in verdicts] == [
        (0, pytest.approx(0.32), True),
        (1, 1.0, False),
    ]
    nothing = candidate(0, least=2 * TAU)
    assert search([nothing], Network(0.01), before=1.0, allowed=1.0, adapts=False) == ([], 1.0)


def test_without_a_limit_nothing_beyond_the_thresholds_goes() -> None:
    network = Network(9.0, 9.0)
    assert outcome(network, np.inf) == [(1.0, True)] * 2
