"""The view of a run, made of its events."""

from __future__ import annotations

import pytest

from matex.records.events import Event
from matex.top.rank_view import RankState
from matex.top.run_view import RunView, view_of
from tests.unit.top.events import BEGAN_S, event, fit, progress, recovered, starts, timing


def states(view: RunView) -> dict[int, str]:
    return {rank: found.state.value for rank, found in view.ranks.items()}


def texts(view: RunView) -> list[str]:
    return [news.text for news in view.news]


def test_ranks_train_and_one_is_lost() -> None:
    kill = {"fault": "kill:rank=1,step=20", "kind": "kill", "step": 20, "at": "compute"}
    view = view_of(
        [
            *starts(3),
            timing(1.0, 2, 9, 0.1, 0.04),
            event(2.0, 1, "fault", lethal=True, **kill),
            recovered(2.5, 0, lost=[1]),
            recovered(2.5, 2, lost=[1]),
        ]
    )
    assert states(view) == {0: "training", 1: "dead", 2: "training"}
    assert (view.ranks[1].why, view.ranks[1].step) == ("kill:rank=1,step=20", 20)
    assert (view.world_size, view.wanted_size) == (2, 3)
    two = view.ranks[2]
    assert (two.step, two.step_s, two.exchange_s, two.memory) == (10, 0.1, 0.04, 5_000_000)
    assert texts(view)[1:] == [
        "lost rank 1 in step 20; 2 of 3 ranks go on, repaired in 12 ms"  # told by two, once
    ]


def test_a_spare_waits_and_takes_a_place() -> None:
    view = view_of(
        [
            *starts(2, spares=1),
            event(0.0, 2, "start", pid=12, host="h", world_size=2, spares=1),
            event(0.1, 2, "waits", step=0),
        ]
    )
    assert states(view) == {0: "training", 1: "training", 2: "spare"}
    view.add(recovered(1.0, 0, lost=[1], joined={"1": 2}, world_size_after=2))
    assert states(view) == {0: "training", 1: "dead", 2: "training"}
    assert view.world_size == 2


def test_a_spare_dies_while_it_waits() -> None:
    view = view_of([*starts(2), event(0.1, 1, "waits", step=0)])
    view.add(event(0.5, 0, "spare-lost", step=4, lost=[1]))
    assert states(view) == {0: "training", 1: "dead"}


def test_a_rank_leaves_on_request() -> None:
    asked = {"number": 7, "request": "resize to 2", "host": None, "leaving": [1], "world_size": 2}
    view = view_of(
        [
            *starts(3),
            event(1.0, 0, "resize", step=20, refused=None, **asked),
            event(1.1, 1, "left", step=20, request="resize to 2"),
            recovered(1.2, 0, lost=[1], left=[1]),
        ]
    )
    assert states(view) == {0: "training", 1: "left", 2: "training"}
    assert (view.world_size, view.wanted_size, view.ranks[1].step) == (2, 2, 20)
    assert texts(view) == [
        "resize to 2: rank 1 leaves",
        "rank 1 left before step 20; 2 of 3 ranks go on, repaired in 12 ms",
    ]


def test_a_rank_that_says_why_it_ends_is_dead_at_once() -> None:
    view = view_of(starts(2))
    view.add(event(1.0, 1, "death", reason="ValueError: no\x1b[31m", step=3, cause="script"))
    assert states(view)[1] == "dead"
    assert view.ranks[1].why == "ValueError: no [31m"  # nothing of it steers a terminal


@pytest.mark.parametrize("status", ["finished", "stopped", "failed"])
def test_the_end_is_that_of_all_who_live(status: str) -> None:
    view = view_of([*starts(3), recovered(1.0, 0, lost=[2])])
    view.add(event(2.0, 0, status, reason=None))
    assert states(view) == {0: status, 1: status, 2: "dead"}
    assert (view.status, view.is_over) == (status, True)


def test_what_the_summary_says_counts_where_no_event_does() -> None:
    view = view_of(starts(1))
    view.end_as("failed")
    assert states(view) == {0: "failed"}
    view.end_as("finished")
    assert view.status == "failed"


def test_all_ranks_are_started_again() -> None:
    again = [
        event(2.0, -1, "restart", number=1, step=30, reason="lost host b", ranks=2, hosts=None),
        *starts(2, at_s=3.0, ends_s=BEGAN_S + 600),
        event(3.0, 0, "resumed", step=20),
        event(3.0, 1, "resumed", step=20),
    ]
    view = view_of([*starts(3), progress(1.0, 29, samples=300), *again])
    assert states(view) == {0: "training", 1: "training"}
    assert (view.starts, view.step, view.wanted_size) == (2, 20, 2)
    assert view.ends_s == BEGAN_S + 600
    assert texts(view) == [
        "restart 1 with 2 ranks: lost host b",
        "continues from the checkpoint of step 20",
    ]


def test_each_rank_tells_of_an_event_of_apoptosis_which_is_said_once() -> None:
    sizes = {"parameters_before": 12000, "parameters": 9000, "changes": []}
    told = [
        event(at_s, rank, "apoptosis", step=int(at_s), epoch=int(at_s), **sizes)
        for at_s in (2.0, 3.0)
        for rank in (0, 1)
    ]
    said = texts(view_of([*starts(2), *told]))
    assert ["after epoch 2" in said[-2], "after epoch 3" in said[-1]] == [True, True]
    assert len(said) == len(texts(view_of(starts(2)))) + 2


def test_ranks_that_no_launcher_announces_are_started_again() -> None:
    view = view_of([*starts(3), event(2.0, 0, "finished", reason=None), *starts(2, at_s=3.0)])
    assert states(view) == {0: "training", 1: "training"}
    assert (view.starts, view.is_over) == (2, False)


def test_the_time_between_two_starts_does_not_count() -> None:
    view = view_of([*starts(2), progress(4.0, 9, samples=90), event(4.5, -1, "continued")])
    assert view.seconds_until(BEGAN_S + 100.0) == 4.0
    for more in (*starts(2, at_s=1000.0), progress(1003.0, 19, samples=190)):
        view.add(more)
    assert view.seconds_until(view.newest_s) == 7.0


def newcomer(time_s: float, rank: int, **fields: object) -> Event:
    """The start of a process in the place of a lost rank."""
    shared = {"pid": 9, "host": "h", "world_size": 3, "spares": 0, "ulfm": True, "ends_s": None}
    return event(time_s, rank, "start", **(shared | fields))


def test_a_newcomer_starts_while_the_others_train() -> None:
    view = view_of([*starts(3), recovered(1.0, 0, lost=[1])])
    for more in (event(2.0, 0, "respawn", newcomer=3, host="h", fit=0), newcomer(3.0, 3)):
        view.add(more)
    assert (view.status, view.world_size, view.wanted_size, view.starts) == ("training", 2, 3, 1)
    assert states(view)[3] == "started"
    admitted = event(4.0, 0, "admitted", step=30, newcomer=3, host="h", seconds=2.0)
    for more in (admitted, event(4.0, 3, "waits", step=None)):
        view.add(more)
        assert states(view)[3] == "spare"
    took_over = event(4.5, 0, "took-over", step=30, ranks=[3], pause_s=0.25)
    joined = event(
        4.5, 0, "joined", step=30, generation=3, joined={"1": 3}, world_size_before=2,
        world_size_after=3,
    )  # fmt: skip
    for more in (took_over, joined):
        view.add(more)
        assert states(view) == {0: "training", 1: "dead", 2: "training", 3: "training"}
    view.add(admitted)  # of a host whose clock is late
    assert (states(view)[3], view.world_size) == ("training", 3)


def test_a_newcomer_that_ends_before_it_joins_is_none_that_starts() -> None:
    failed = event(4.0, 0, "respawn-failed", newcomer=3, reason="no\x1b memory")
    view = view_of([*starts(3), recovered(1.0, 0, lost=[1]), newcomer(3.0, 3), failed])
    view.add(progress(5.0, 40, samples=1, ranks=2))
    assert (view.status, view.world_size) == ("training", 2)
    assert states(view) == {0: "training", 1: "dead", 2: "training", 3: "failed"}
    assert view.ranks[3].why == "no  memory"
    view.add(newcomer(6.0, 3))  # a later leader may give the number again
    assert (view.status, states(view)[3]) == ("training", "started")
    view.add(event(7.0, 0, "finished", reason=None))
    view.add(failed)
    assert states(view)[3] == "finished"


def test_a_newcomer_before_the_first_step_changes_no_number_of_ranks() -> None:
    view = view_of([*starts(3)[:3], recovered(1.0, 0, lost=[1]), newcomer(2.0, 3)])
    assert (view.status, view.world_size, view.wanted_size) == ("starting", 2, 3)


def test_ranks_that_start_although_none_told_of_the_end_are_a_new_start() -> None:
    """Ranks that mpiexec started were killed all at once, and are started again."""
    view = view_of([*starts(3), progress(4.0, 9, samples=90)])
    for more in starts(4, at_s=100.0):
        view.add(more)
    assert (view.starts, view.status, view.world_size, view.wanted_size) == (2, "training", 4, 4)
    assert view.seconds_until(view.newest_s) == 4.0
    one_more, *others = [newcomer(200.0, rank, world_size=5) for rank in (4, 0, 1, 2, 3)]
    for more in (one_more, *others, event(200.5, 4, "first-step", step=0, generation=0)):
        view.add(more)
    assert (view.starts, view.world_size, set(view.ranks)) == (3, 5, set(range(5)))
    assert states(view)[4] == "training"
    lost = view_of([*starts(2), recovered(1.0, 0, lost=[0, 1], world_size_after=0)])
    lost.add(newcomer(9.0, 1))
    assert (lost.starts, lost.status, lost.world_size) == (2, "starting", 3)
    assert states(lost) == {1: "started"}


def test_progress_tells_how_many_ranks_work() -> None:
    view = view_of([*starts(3), progress(1.0, 9, samples=90, ranks=2)])
    assert (view.world_size, view.wanted_size) == (2, 3)


def test_samples_a_second_are_those_of_the_latest_seconds() -> None:
    view = view_of([*starts(1), progress(0.0, 0, samples=0)])
    assert view.samples_per_s is None
    for second in range(1, 31):  # 10 a second, and from then on 100
        done = 10 * second if second <= 15 else 150 + 100 * (second - 15)
        view.add(progress(float(second), second, samples=done))
    assert view.samples_per_s == 100.0
    view.add(event(31.0, 0, "finished", reason=None))
    assert view.samples_per_s == (150 + 1500) / 30


def test_the_epoch_and_the_step_in_it() -> None:
    view = view_of([*starts(2), fit(0.1), fit(0.1, 1)])
    assert view.fit is not None
    assert tuple(view.fit) == (0, 3, 0, 16)  # 1000 samples in batches of 64
    for rank in (0, 1):
        view.add(event(2.0, rank, "epoch", epoch=0, step=16, loss=0.25, accuracy=0.5))
    assert tuple(view.fit) == (1, 3, 16, 16)
    assert (view.step, view.metrics) == (16, {"loss": [0.25], "accuracy": [0.5]})


def test_an_epoch_that_goes_on_from_a_checkpoint() -> None:
    view = view_of([*starts(1), fit(0.1, step=20, cursor=256, first_epoch=1)])
    assert view.fit is not None
    assert tuple(view.fit) == (1, 3, 16, 16)


def test_the_length_of_an_epoch_may_be_unknown_and_batches_whole() -> None:
    view = view_of([*starts(1), fit(0.1, samples=None)])
    assert view.fit is not None
    assert view.fit.steps is None
    view.add(event(0.2, 0, "fit", fit=1, step=4, but_for=[], whole="a reason"))
    assert view.fit.epochs == 3


def test_the_loss_is_within_epochs_and_at_their_end() -> None:
    known = [progress(1.0, 9, samples=1, loss=0.5), progress(1.1, 10, samples=2, loss=None)]
    view = view_of([*starts(1), *known, event(2.0, 0, "epoch", epoch=0, step=16, loss=0.25)])
    assert view.loss == [0.5, 0.25]


def test_of_several_checkpoints_the_newest_is_news() -> None:
    def saved(time_s: float, step: int) -> dict[str, object]:
        shared = {"path": "p", "seconds": 0.5, "busy_s": 0.1, "parts": 1}
        return event(time_s, 0, "checkpoint", tier="files", step=step, **shared)

    view = view_of([*starts(1), saved(1.0, 10), saved(2.0, 20)])
    assert view.checkpoint is not None
    assert view.checkpoint["step"] == 20
    assert texts(view) == ["checkpoint of step 20 (files, 0.50 s)"]


def test_a_dead_rank_stays_so() -> None:
    view = view_of([*starts(2), recovered(1.0, 0, lost=[1])])
    view.add(event(1.1, 1, "first-step", step=0, generation=0))
    assert view.ranks[1].state is RankState.DEAD
