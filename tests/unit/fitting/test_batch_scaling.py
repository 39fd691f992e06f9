"""A batch for each rank: whose count it follows, and which samples the steps then have."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import ft
from matex.config import Config
from matex.fitting.batch_scaling import BatchScaling
from matex.partition.order import Order, shuffled_anew
from matex.strategies import StrategyContext, make_strategy


@pytest.mark.parametrize("cut", [0, 1, 4])
def test_steps_that_shrink_still_cover_the_epoch_once(cut: int) -> None:
    order = Order(visits=shuffled_anew(1000, seed=1)(0), batch_size=90)
    cursor, spans = 0, []
    while cursor < order.samples:
        span = order.step(cursor, 30 * (3 if len(spans) < cut else 2))
        spans.append(span)
        cursor = span[1]
    assert sorted(order.indices(spans).tolist()) == list(range(1000))
    assert sum(order.fingerprint([span]) for span in spans) == order.fingerprint([(0, 1000)])
    assert [hi - lo for lo, hi in spans[:-1]] == [90] * cut + [60] * (len(spans) - 1 - cut)


class Scaled(BatchScaling):
    """A large batch, and the rate that it has with the strategy of its options."""

    def __init__(self, config: Config, communicator: Any) -> None:
        super().__init__(config, communicator)
        replica: Any = None  # is not read before the first step
        self._strategy = make_strategy(
            StrategyContext(
                communicator=communicator, replica=replica, options=config, seed=0, epochs=9
            )
        )

    def rate(self, epochs_done: float) -> float:
        return self.rate_factor(epochs_done, strategy=self._strategy)


def large(**options: Any) -> tuple[Scaled, Any]:
    pending = ft.Pending(operation=5, expected=(0, 2, 3, 5), lost=(3,))
    hosts = {rank: f"host {rank // 2}" for rank in range(6)}
    communicator: Any = SimpleNamespace(pending=pending, hosts=hosts)
    return Scaled(Config(**options), communicator), communicator


def test_one_that_died_in_a_step_counts_in_it_and_not_in_the_next() -> None:
    batch, communicator = large(batch_per_rank=True, lr_scaling="linear", warmup_epochs=2)
    assert (batch.multiplier(), batch.rate(1.0), batch.rate(7.5)) == (4, 2.5, 4)
    communicator.pending = ft.Pending(operation=6, expected=(0, 2, 5), lost=())
    assert (batch.multiplier(), batch.rate(1.0), batch.rate(7.5)) == (3, 2, 3)


def test_without_it_nothing_depends_on_the_ranks() -> None:
    batch, _ = large()
    assert (batch.multiplier(), batch.rate(3.0), batch.scales_rate) == (1, 1.0, False)


def test_where_replicas_part_the_rate_alone_follows_the_ranks() -> None:
    batch, communicator = large(strategy="gossip", lr_scaling="sqrt", warmup_epochs=0)
    assert (batch.multiplier(), batch.rate(0.0), batch.scales_rate) == (1, 2.0, True)
    communicator.pending = ft.Pending(operation=6, expected=(2,), lost=())
    assert batch.rate(0.0) == 1.0
    elastic, _ = large(strategy="easgd", lr_scaling="sqrt", warmup_epochs=0)
    assert elastic.rate(0.0) == 2.0 * 5 / 4
    assert large(strategy="easgd")[0].rate(0.0) == 1.0


def test_a_node_of_daso_counts_as_one_unless_each_rank_adds_to_the_batch() -> None:
    """Nodes are 0; 2 and 3; 5."""
    options: dict[str, Any] = {"strategy": "daso", "lr_scaling": "sqrt", "warmup_epochs": 0}
    assert large(**options)[0].rate(0.0) == pytest.approx(3**0.5)
    assert large(**options, ranks_per_node=6)[0].rate(0.0) == 1.0
    assert large(**options, batch_per_rank=True)[0].rate(0.0) == 2.0


def test_with_two_levels_the_centres_of_the_nodes_must_be_moved_too() -> None:
    """The nodes are the hosts, or so many ranks each, or one node, which has one level."""
    levels: dict[str, Any] = {"strategy": "easgd", "two_level": True, "lr_scaling": "sqrt"}
    batch, communicator = large(**levels, warmup_epochs=0)
    assert batch.rate(0.0) == pytest.approx(2.0 * (4 + 3 + 1) / 4)  # 0; 2 and 3; 5
    assert large(**levels, warmup_epochs=0, ranks_per_node=4)[0].rate(0.0) == pytest.approx(
        2.0 * (4 + 2 + 1) / 4
    )
    communicator.pending = ft.Pending(operation=6, expected=(2, 3), lost=())
    assert batch.rate(0.0) == pytest.approx(2**0.5 * 3 / 2)
