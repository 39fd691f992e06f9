"""Strategies over real messages and plain vectors: one model in the end, the mean kept, counted."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import ft
from matex.config import Config
from matex.strategies import (
    STRATEGIES as TABLE,
)
from matex.strategies import (
    AllAtOnce,
    CentreRule,
    CentreStrategy,
    Daso,
    DownpourRule,
    ElasticRule,
    Gossip,
    InTurn,
    ReplicaLike,
    Strategy,
    StrategyContext,
    make_strategy,
    nodes_by,
)
from matex.strategies.ring import ring_mean, ring_traffic
from matex.strategies.rules.centre import Push, Sent, WorkerMemory
from tests.adagrad import Adagrad
from tests.mpi.operations import add_up
from tests.mpi.vectors import Vector

Make = Callable[[ft.Communicator, ReplicaLike], Strategy]


class AveragingRule(CentreRule):
    """A strategy of this file alone: the centre is a mean, and workers go on from it."""

    name = "averaging"

    def push(
        self, weights: np.ndarray, share: float, memory: WorkerMemory
    ) -> tuple[np.ndarray, WorkerMemory]:
        return weights, memory._replace(sent=(*memory.sent, Sent(weights, share)))

    def serve(self, centre: np.ndarray, pushes: Sequence[Push], groups: int) -> list[np.ndarray]:
        for push in pushes:
            centre = centre + push.share * (push.vector - centre)
        return [centre] * len(pushes)

    def apply(self, answer: np.ndarray, memory: WorkerMemory) -> tuple[np.ndarray, WorkerMemory]:
        oldest, *rest = memory.sent
        return answer - oldest.weights, memory._replace(sent=tuple(rest))

    def meet(
        self, weights: np.ndarray, mean: np.ndarray, centre: np.ndarray, *, share: float
    ) -> tuple[np.ndarray, np.ndarray]:
        return mean, mean


def from_a_new_row(**options: Any) -> Make:
    """A factory of the strategy of :class:`AveragingRule`, from a row of its own."""

    def make(comm: ft.Communicator, replica: ReplicaLike) -> Strategy:
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(
                TABLE,
                AveragingRule.name,
                lambda context: context.centre(
                    AveragingRule(), at_once=not context.options.asynchronous
                ),
            )
            fit = StrategyContext(
                communicator=comm,
                replica=replica,
                options=Config(strategy="easgd", sync_every=3, **options),
                seed=7,
                epochs=3,
            )
            return make_strategy(fit, AveragingRule.name)

    return make


def centre(rule: CentreRule, topology: type[AllAtOnce | InTurn], **options: Any) -> Make:
    """A factory of a centre strategy; with ``two_level`` of nodes of two ranks."""

    def make(comm: ft.Communicator, replica: ReplicaLike) -> Strategy:
        given = dict(options)
        if given.pop("two_level", False):
            given |= {"nodes": nodes_by(comm, 2), "outer": 2}
        return CentreStrategy(comm, replica, rule, topology(**given))

    return make


def both_levels(name: str, *args: Any, **options: Any) -> dict[str, Make]:
    """A strategy on one level and on two."""
    return {
        name: centre(*args, **options),
        f"{name}-two-level": centre(*args, two_level=True, **options),
    }


STRATEGIES: dict[str, Make] = {
    "gossip": lambda comm, replica: Gossip(comm, replica, seed=7),
    "gossip-int8": lambda comm, replica: Gossip(comm, replica, seed=7, compression="int8"),
    **both_levels("easgd", ElasticRule(), AllAtOnce, every=3),
    **both_levels("easgd-async", ElasticRule(), InTurn, every=3),
    **both_levels("downpour", DownpourRule(), InTurn),
    **both_levels("downpour-sync", DownpourRule(), AllAtOnce, every=3),
    "downpour-each-step": centre(DownpourRule(), InTurn, every=1),
    "downpour-momentum": centre(DownpourRule(momentum=0.6), InTurn, bound=1),
    **both_levels("downpour-adagrad", DownpourRule(optimizer=Adagrad(1.2)), InTurn),
    "downpour-sync-adagrad": centre(DownpourRule(optimizer=Adagrad(1.2)), AllAtOnce, every=3),
    "downpour-sync-momentum-two-level": centre(
        DownpourRule(momentum=0.3), AllAtOnce, every=3, two_level=True
    ),
    "downpour-momentum-each-step-two-level": centre(
        DownpourRule(momentum=0.6), InTurn, every=1, bound=1, two_level=True
    ),
    "averaging": from_a_new_row(),
    "averaging-in-turn": from_a_new_row(asynchronous=True),
    "averaging-two-level": from_a_new_row(two_level=True, ranks_per_node=2, outer_every=2),
    "averaging-in-turn-two-level": from_a_new_row(
        asynchronous=True, two_level=True, ranks_per_node=2, outer_every=2
    ),
    "daso": lambda comm, replica: Daso(comm, replica, epochs=3, ranks_per_node=2),
}


def move(vector: Vector, target: float) -> None:
    vector.value = vector.value + 0.1 * (target - vector.value)


def update(strategy: Strategy, vector: Vector, gradient: np.ndarray, *, step: int) -> None:
    """Move *vector* against the *gradient* of one row, as a step does after its collective."""
    *total, rows = strategy.average_gradients(step, np.append(gradient, 1.0))
    vector.value = vector.value - np.array(total) / rows


@pytest.fixture(params=STRATEGIES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_rank_that_is_one_operation_behind_waits_for_nobody(
    name: str, comm: ft.Communicator
) -> None:
    """Nobody died, and what comes between the operations is behind the others already."""
    fails = {3: comm.world.ranks[0], 4: comm.world.ranks[0], 10: comm.world.ranks[-1]}
    vector = Vector()
    strategy = STRATEGIES[name](comm, vector)
    strategy.epoch_begins(1)  # for DASO not one of those that average everything
    for step in range(14):
        strategy.before_step(step)
        add_up(comm, fails=fails.get(step) == comm.world.rank)
        update(strategy, vector, 0.1 * (vector.value - comm.world.rank), step=step)
        strategy.after_step(step)
    strategy.consensus()
    found = comm.allgather(vector.value)
    assert all(np.array_equal(row, found.rows[0]) for row in found.rows)


def flat(state: Mapping[str, np.ndarray]) -> np.ndarray:
    return np.concatenate([np.zeros(1), *state.values()])


def test_a_strategy_goes_on_from_its_saved_state_as_if_uninterrupted(
    name: str, comm: ft.Communicator
) -> None:
    """Four epochs, in which the loss no longer falls, and a resumption in one of two runs."""

    def epochs(strategy: Strategy, vector: Vector, numbers: Sequence[int]) -> None:
        for epoch in numbers:
            strategy.epoch_begins(1)  # for DASO not one of those that average everything
            for step in range(8 * epoch, 8 * epoch + 8):
                strategy.before_step(step)
                comm.barrier()
                update(strategy, vector, 0.1 * (vector.value - comm.world.rank), step=step)
                strategy.after_step(step)
            strategy.consensus()
            strategy.epoch_ended(1.0)

    one, other = Vector(), Vector()
    uninterrupted = STRATEGIES[name](comm, one)
    epochs(uninterrupted, one, range(4))
    other.value, state = one.read(), uninterrupted.saved_state()
    rows = comm.allgather(flat(state)).rows
    assert (rows == rows[0]).all()
    epochs(uninterrupted, one, range(4, 6))
    resumed = STRATEGIES[name](comm, other)
    resumed.restore_state(state)
    epochs(resumed, other, range(4, 6))
    np.testing.assert_array_equal(other.value, one.value)
    np.testing.assert_array_equal(flat(resumed.saved_state()), flat(uninterrupted.saved_state()))


def transfers() -> list[ft.Sending | ft.Receiving]:
    """All messages of this process whose memory is still in use."""
    return [one for one in gc.get_objects() if isinstance(one, ft.Sending | ft.Receiving)]


def test_a_step_that_ends_by_an_error_leaves_no_message_behind(
    name: str, comm: ft.Communicator
) -> None:
    """MPI would still write to memory that Python has given to others by then."""
    from mpi4py import MPI

    of_others = set(map(id, transfers()))
    vector = Vector()
    strategy = STRATEGIES[name](comm, vector)
    strategy.epoch_begins(1)
    for step in range(5):
        strategy.before_step(step)
        comm.barrier()
        if step < 4:  # the last one has gradients that are not finite, on all ranks
            update(strategy, vector, 0.1 * (vector.value - comm.world.rank), step=step)
            strategy.after_step(step)
    own = [one for one in transfers() if id(one) not in of_others]
    strategy.consensus()
    requests = [request for one in own for request in one._requests]
    assert all(request == MPI.REQUEST_NULL for request in requests)


def test_ranks_with_data_of_their_own_find_the_common_optimum(
    name: str, comm: ft.Communicator
) -> None:
    """Each is drawn to its own rank's number: the one model is near the mean of them."""
    vector = Vector()
    strategy = STRATEGIES[name](comm, vector)
    for step in range(120):
        if step % 40 == 0:
            strategy.epoch_begins(step // 40)
        strategy.before_step(step)
        comm.barrier()  # in place of the step's collective
        update(strategy, vector, 0.1 * (vector.value - comm.world.rank), step=step)
        strategy.after_step(step)
        if step % 40 == 39:
            strategy.consensus()
            rows = comm.allgather(vector.value).rows
            assert (rows == rows[0]).all()
    # A rank that is alone on its node is drawn harder than those of another, and the mean of the
    # averaging rule leans towards who pushed last.
    unequal = "two-level" in name and comm.world.size % 2
    tolerance = 0.15 if "averaging-in-turn" in name else 0.1 if unequal else 0.05
    np.testing.assert_allclose(vector.value, (comm.world.size - 1) / 2, atol=tolerance)
    # Two ranks of DASO are one node, and the third rank here is alone on its own.
    least = {"daso": 3, "averaging-two-level": 4}.get(name, 2)
    if comm.world.size >= least:
        assert strategy.report()["disagreement"] > 0


def test_gossip_keeps_the_mean_and_sends_one_model(comm: ft.Communicator) -> None:
    vector = Vector()
    vector.value += comm.world.rank
    strategy = Gossip(comm, vector, seed=7)
    mean = comm.allgather(vector.value).rows.mean(0)
    for step in range(4):
        strategy.before_step(step)
        change = np.full(7, comm.world.rank * 0.5)
        vector.value = vector.value + change
        comm.barrier()
        strategy.after_step(step)
        mean = mean + comm.allgather(change).rows.mean(0)
        np.testing.assert_allclose(comm.allgather(vector.value).rows.mean(0), mean, atol=1e-12)
        assert strategy.traffic == ((1, 56) if comm.world.size > 1 else (0, 0))
    strategy.consensus()
    np.testing.assert_allclose(vector.value, mean, atol=1e-12)


@pytest.mark.parametrize(("compression", "nbytes"), [("bf16", 14), ("fp16", 14), ("int8", 13)])
def test_gossip_in_fewer_bits_keeps_the_mean(
    comm: ft.Communicator, compression: str, nbytes: int
) -> None:
    vector = Vector()
    strategy = Gossip(comm, vector, seed=7, compression=compression)
    mean = vector.value
    for step in range(4):
        strategy.before_step(step)
        change = np.full(7, comm.world.rank * 0.5)
        vector.value = vector.value + change
        comm.barrier()
        strategy.after_step(step)
        mean = mean + comm.allgather(change).rows.mean(0)
        np.testing.assert_allclose(comm.allgather(vector.value).rows.mean(0), mean, atol=1e-12)
        assert strategy.traffic == ((1, nbytes) if comm.world.size > 1 else (0, 0))
    strategy.consensus()
    np.testing.assert_allclose(vector.value, mean, atol=1e-12)


@pytest.mark.parametrize("compression", ["fp16", "int8"])
def test_gossip_in_fewer_bits_keeps_small_numbers_of_the_optimizer(
    comm: ft.Communicator, compression: str
) -> None:
    """Numbers that int8 takes for zero beside large ones, and fp16 alone."""
    vector, state = Vector(), np.array([1.0, 1e-9])
    vector.value = np.append(vector.value[:5], [0.0, 0.0])
    strategy = Gossip(comm, vector, seed=7, compression=compression)
    strategy.before_step(0)
    comm.barrier()
    strategy.after_step(0)
    vector.value[5:] = state
    strategy.before_step(1)
    vector.value[5:] = 2 * state
    comm.barrier()
    strategy.after_step(1)
    np.testing.assert_allclose(vector.value[5:], 2 * state, rtol=0.01)
    assert comm.world.size == 1 or (strategy._sent[5:] > 0.9 * state).all()
    strategy.consensus()


def test_elastic_workers_meet_every_so_many_steps(comm: ft.Communicator) -> None:
    vector = Vector()
    strategy = CentreStrategy(comm, vector, ElasticRule(), AllAtOnce(every=3))
    sent = []
    for step in range(6):
        strategy.before_step(step)
        move(vector, comm.world.rank)
        comm.barrier()
        strategy.after_step(step)
        sent.append(strategy.traffic.messages)
    assert sent == [0, 0, 1, 0, 0, 1]


def test_a_ring_gives_all_the_same_mean(comm: ft.Communicator) -> None:
    """Among all, and among the odd ranks and the even ones at a time; of lengths with a rest."""
    rank, ranks = comm.world.rank, comm.world.ranks
    for number, group in enumerate((ranks, [r for r in ranks if r % 2 == rank % 2])):
        vector = np.arange(11.0) * (rank + 1)
        got = ring_mean(comm, group, vector, number=number)
        assert got is not None
        np.testing.assert_allclose(got, np.arange(11.0) * np.mean([r + 1 for r in group]))
        rows = comm.allgather(got)
        assert all((rows[r] == got).all() for r in group)
    pieces = 2 * (len(ranks) - 1)
    assert ring_traffic(len(ranks), vector) == (pieces, pieces * 8 * -(-11 // len(ranks)))


def test_nodes_of_daso_are_one_model_and_draw_together(comm: ft.Communicator) -> None:
    """Nodes diverge in the first step, and then do not move: each meeting halves their distance."""
    vector = Vector()
    strategy = Daso(comm, vector, epochs=3, ranks_per_node=2)
    strategy.epoch_begins(0)
    node, messages = comm.world.rank // 2, []
    for step in range(14):
        strategy.before_step(step)
        comm.barrier()
        drawn = -float(node + 0.1 * comm.world.rank) if step == 0 else 0.0
        update(strategy, vector, np.full(7, drawn), step=step)
        strategy.after_step(step)
        messages.append(strategy.traffic.messages)
        nodes = comm.allgather(vector.value)
        for rank in comm.world.ranks:
            np.testing.assert_array_equal(nodes[rank], nodes[rank // 2 * 2])
    size = comm.world.size
    if size in (2, 3, 4):
        own = 2 if size != 3 or node == 0 else 0  # of a ring, for gradients in each step
        between = [3, 7, 11] if size > 2 else []
        # And where an average between nodes comes in, for the weights.
        sends = [m - own * (1 + (step - 1 in between)) for step, m in enumerate(messages)]
        place = comm.world.rank % 2
        wanted = [
            int(step in between and (not own or (step + 1) // 4 % 2 == place)) for step in range(14)
        ]
        assert sends == wanted
    if size == 4:
        start = np.array([0.05, 1.25])
        gap = float(nodes[2][0] - nodes[0][0])
        assert gap == pytest.approx((start[1] - start[0]) / 8, rel=0.02)
        assert vector.value[0] == pytest.approx(start.mean() + (node - 0.5) * gap, abs=0.01)
    strategy.consensus()
    assert len({row.tobytes() for row in comm.allgather(vector.value).rows}) == 1


def test_ranks_of_a_node_that_have_diverged_average_their_models_once(
    comm: ft.Communicator,
) -> None:
    """The first rank takes an operation for failed, and sends nothing in that step."""
    vector, rank = Vector(), comm.world.rank
    strategy = Daso(comm, vector, epochs=3, ranks_per_node=comm.world.size)
    strategy.epoch_begins(0)
    apart = []
    for step in range(6):
        strategy.before_step(step)
        add_up(comm, fails=step == 2 and rank == comm.world.leader)
        update(strategy, vector, np.full(7, 1.0 + rank), step=step)
        strategy.after_step(step)
        apart.append(len({row.tobytes() for row in comm.allgather(vector.value).rows}) > 1)
    mean = (comm.world.size + 1) / 2
    np.testing.assert_allclose(vector.value, np.arange(7) - 6 * mean, rtol=1e-12)
    if comm.world.size > 1:
        assert apart == [False, False, True, False, False, False]


@pytest.mark.parametrize("rows", [(3.0, 1.0), (2.0, 0.0)])
def test_daso_weights_gradients_by_rows(comm: ft.Communicator, rows: tuple[float, float]) -> None:
    """Each gradient is a sum over the rows of its rank, which may have none."""
    strategy = Daso(comm, Vector(), epochs=3, ranks_per_node=2)
    strategy.epoch_begins(0)
    own, other = rows if comm.world.rank % 2 == 0 else rows[::-1]
    strategy.before_step(0)
    comm.barrier()
    total, count = strategy.average_gradients(0, np.array([own * own, own]))
    if comm.world.rank ^ 1 in comm.world.ranks:
        assert total / count == pytest.approx((own * own + other * other) / (own + other))
    else:
        assert (total, count) == (own * own, own)


def test_the_first_epochs_of_daso_average_all_gradients(comm: ft.Communicator) -> None:
    """Weighted by rows, of which the first rank has three, also after an operation that failed."""
    vector, (rank, size) = Vector(), (comm.world.rank, comm.world.size)
    strategy = Daso(comm, vector, epochs=5, ranks_per_node=2)
    strategy.epoch_begins(0)
    for step in range(4):
        strategy.before_step(step)
        add_up(comm, fails=step == 1 and rank == comm.world.leader)
        rows = 1.0 if rank else 3.0
        *total, count = strategy.average_gradients(step, np.append(np.full(7, rank * rows), rows))
        vector.value = vector.value - np.array(total) / count
        strategy.after_step(step)
        mean = size * (size - 1) / 2 / (size + 2)
        np.testing.assert_allclose(vector.value, np.arange(7) - (step + 1) * mean)
        assert len({row.tobytes() for row in comm.allgather(vector.value).rows}) == 1
        assert strategy.traffic == (1, 64)
    assert strategy.replicas(comm.world.ranks) == 1
    strategy.epoch_begins(1)
    assert strategy.replicas(comm.world.ranks) == (size + 1) // 2


def test_pushes_of_downpour_come_in_turn_and_nothing_is_lost(comm: ft.Communicator) -> None:
    """Each rank moves by its own number in each step, so the centre tells which pushes it has."""
    vector, size, rank = Vector(), comm.world.size, comm.world.rank
    strategy = CentreStrategy(comm, vector, DownpourRule(), InTurn())
    sent = []
    for step in range(16):
        strategy.before_step(step)
        vector.value = vector.value + np.append(np.full(5, 10.0**-rank), [0, 0])
        comm.barrier()
        strategy.after_step(step)
        sent.append(strategy.traffic.messages)
        assert strategy.traffic.bytes == 48 * sent[-1]  # five weights and a version
    if size == 1:
        assert sum(sent) == 0
    elif rank:
        assert sum(sent) == 4
        assert [step % 4 for step in range(16) if sent[step]] == [(3 + rank * 4 // size) % 4] * 4
    strategy.consensus()
    rows = comm.allgather(vector.value).rows
    assert (rows == rows[0]).all()
    told = strategy.report()["staleness"]
    assert set(told) <= set(range(size))
    assert told[size - 1] >= sum(told.values()) - size * (size - 1) / 2
    assert strategy.report()["staleness"] == {}


def test_asynchronous_elastic_averaging_keeps_the_sum(comm: ft.Communicator) -> None:
    """The sum is that of the centre and the workers, when all pushes are done and nobody moves."""
    vector, size, rank = Vector(), comm.world.size, comm.world.rank
    strategy = CentreStrategy(comm, vector, ElasticRule(), InTurn(every=4))
    for step in range(2 + 4 * 10):
        strategy.before_step(step)
        if step == 0:
            vector.value = vector.value + rank
        comm.barrier()
        strategy.after_step(step)
    workers = comm.allgather(vector.value).rows
    start = np.arange(7.0)
    if size > 1:
        assert np.ptp(workers[:, 0]) < 0.5 * (size - 1)
    strategy.consensus()  # keeps the sum of all, too: and then every worker is the centre
    assert start[0] - 1e-9 <= vector.value[0] <= start[0] + size - 1


def test_a_worker_of_eamsgd_is_pulled_where_it_is_and_not_where_it_looks(
    comm: ft.Communicator,
) -> None:
    class Momentum(Vector):
        weights = 3

        def __init__(self) -> None:
            self.value = np.array([0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 9.0])

    vector = Momentum()
    strategy = CentreStrategy(comm, vector, ElasticRule(nesterov=0.5), AllAtOnce(every=1))
    strategy.before_step(0)
    comm.barrier()
    strategy.after_step(0)
    alpha = 0.9 / comm.world.size
    np.testing.assert_allclose(vector.value[:3], alpha * 0.5 * np.array([1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(vector.value[3:], [1, 2, 3, 9])


def test_gossip_sends_one_model_and_receives_one_in_each_step(
    comm: ft.Communicator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted where MPI is called, by the bytes that each message has."""
    calls: list[tuple[str, int]] = []

    class Counted:
        def __init__(self, handle: Any) -> None:
            self._handle = handle

        def Isend(self, buffer: np.ndarray, **where: int) -> Any:
            calls.append(("sent", buffer.nbytes))
            return self._handle.Isend(buffer, **where)

        def Irecv(self, buffer: np.ndarray, **where: int) -> Any:
            calls.append(("received", buffer.nbytes))
            return self._handle.Irecv(buffer, **where)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._handle, name)

    monkeypatch.setattr(comm._membership, "handle", Counted(comm.handle))
    vector, size = Vector(), comm.world.size
    vector.value += comm.world.rank
    strategy = Gossip(comm, vector, seed=7)
    rounds = (size - 1).bit_length()
    for step in range(3 * rounds):
        calls.clear()
        strategy.before_step(step)
        comm.barrier()
        strategy.after_step(step)
        assert sorted(calls) == [("received", 56), ("sent", 56)]
        if step + 1 == rounds and size == 1 << rounds:
            np.testing.assert_allclose(vector.value, np.arange(7) + (size - 1) / 2, atol=1e-14)
    strategy.consensus()
    np.testing.assert_allclose(vector.value, np.arange(7) + (size - 1) / 2, atol=1e-12)


@pytest.mark.parametrize("word", TABLE)
def test_a_row_makes_the_strategy_of_its_word(word: str, comm: ft.Communicator) -> None:
    vector = Vector()
    strategy = make_strategy(
        StrategyContext(
            communicator=comm, replica=vector, options=Config(strategy=word), seed=1, epochs=2
        )
    )
    assert strategy.name == word
    strategy.epoch_begins(0)
    strategy.consensus()  # no step was made, so there is nothing to agree on
    strategy.epoch_ended(None)
    np.testing.assert_array_equal(vector.value, np.arange(7))
    assert strategy.traffic == (0, 0)
