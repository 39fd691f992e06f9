"""Facts on which the ranks of a run agree."""

from __future__ import annotations

from dataclasses import replace

import pytest

from matex.config import Config
from matex.run.processor import Threads
from matex.run.ranks import RunRanks
from matex.run.welcome import Welcome

WELCOME = Welcome(
    ranks=4, active=3, threads=1, hosts=1, virtual=8, key="secret", plan="", elapsed_s=0.0,
    histories=[],
)  # fmt: skip


def ranks(welcome: Welcome | None = None, **options: object) -> RunRanks:
    return RunRanks(replace(Config(), **options), 4, Threads(), welcome)  # type: ignore[arg-type]


def test_spares_do_not_train() -> None:
    assert ranks(spares=1).active == 3


def test_a_newcomer_has_what_the_leader_told() -> None:
    newcomer = ranks(WELCOME, deterministic=True)
    assert (newcomer.active, newcomer.key, newcomer.virtual_workers) == (3, "secret", 8)


@pytest.mark.parametrize(("saved", "option", "workers"), [(0, 0, 4), (0, 6, 6), (16, 6, 16)])
def test_the_checkpoint_comes_before_the_option(saved: int, option: int, workers: int) -> None:
    own = ranks(deterministic=True, virtual=option)
    own.keep_virtual_workers(saved)
    assert own.virtual_workers == workers


def test_ranks_share_batches_unless_the_run_is_deterministic() -> None:
    own = ranks()
    own.keep_virtual_workers(16)
    assert own.virtual_workers == 0
