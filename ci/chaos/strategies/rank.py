"""One rank of the strategies layer: python -m ci.chaos.strategies.rank PLAN.json DIRECTORY

It writes what a rank of the ft layer does: see `ci.chaos.ft.rank`. The result of a run is what its
steps and its consensuses came to.
"""

from __future__ import annotations

import faulthandler
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import ft
from ci.chaos.ft.rank import STACKS_AFTER_S, begin
from ci.chaos.ft.work import Work
from ci.chaos.strategies.plan import MEET_EVERY
from ft import mpi, p2p
from matex.cli.arguments import add_options, given_words
from matex.cli.parser import Parser
from matex.config import Config
from matex.strategies import Strategy, StrategyContext, make_strategy

INSIDE = ("in-strategy", "in-consensus")
#: Of what is drawn to numbers below that of the ranks; and of its elements from each other,
#: which all move alike and are rounded differently: a vector that came in part is farther.
FARTHEST, ALIKE = 100.0, 0.02


class Moments:
    """Strikes this rank inside a strategy, after so much of what it does there: see MovesPlan."""

    def __init__(
        self, injector: ft.Injector, communicator: ft.Communicator, plan: dict[str, Any]
    ) -> None:
        self._injector = injector
        self._communicator = communicator
        self._rank = communicator.world.rank
        self._moment: int = plan["moments"][self._rank]
        self._cuts: list[dict[str, Any]] = plan["cuts"]
        self._phase = ""
        self._seen = self._done = 0
        for owner, name in (
            (p2p.Sending, "__init__"),
            (p2p.Receiving, "__init__"),
            (p2p.Sending, "wait"),
            (p2p.Receiving, "wait"),
        ):
            self._count(owner, name)
        self._mpi = mpi.load()
        self._attempt = communicator.attempt
        communicator.attempt = self._attempted  # type: ignore[method-assign]

    @contextmanager
    def inside(self, phase: str) -> Iterator[None]:
        self._phase, self._seen, self._done = phase, 0, self._communicator.done
        if phase in INSIDE and not self._moment and not self._cut("victim"):
            self._injector.during(phase)
        yield
        self._injector.at(phase)  # what it waited for did not come
        self._phase = ""

    def _count(self, owner: type, name: str) -> None:
        plain: Callable[..., Any] = getattr(owner, name)

        def call(this: Any, *args: Any, **named: Any) -> Any:
            if name != "__init__":
                self._pass()
            result = plain(this, *args, **named)
            self._pass()
            return result

        setattr(owner, name, call)

    def _pass(self) -> None:
        if self._phase in INSIDE and not self._cut("victim"):
            self._seen += 1
            if self._seen == self._moment:
                self._injector.at(self._phase)

    def _attempted(
        self, result: Any, call: Callable[[Any], object], *args: Any, **named: Any
    ) -> None:
        self._pass()
        count = self._communicator.done + 1 - self._done
        cuts = [cut for cut in self._cut("late") if cut["count"] == count]

        def cut_short(comm: Any) -> None:
            call(comm)
            for cut in cuts:
                self._cuts.remove(cut)
                raise self._mpi.Exception(self._mpi.ERR_REVOKED)

        self._attempt(result, cut_short, *args, **named)
        if any(cut["count"] == count for cut in self._cut("victim")):
            self._injector.at(self._phase)

    def _cut(self, role: str) -> list[dict[str, Any]]:
        """Faults that are planned for the running phase in which this rank has the *role*."""
        return [
            cut
            for cut in self._cuts
            if (cut["step"], cut["phase"]) == (self._injector.step, self._phase)
            and self._rank in np.atleast_1d(cut[role])
        ]


class Vector:
    """A model, and a fifth of it behind its weights as momenta."""

    def __init__(self, size: int) -> None:
        self.weights = size - size // 5
        self.value = np.zeros(size, np.float32)

    def read(self) -> np.ndarray[Any, Any]:
        return self.value.copy()

    def write(self, vector: np.ndarray[Any, Any]) -> None:
        self.value = vector.copy()

    def magnitudes(self, *vectors: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.zeros(vectors[0].size, bool)

    def gradient(self, target: float) -> np.ndarray[Any, Any]:
        """The gradient that draws it to *target*, as that of one row, and behind it this 1."""
        return np.append(self.value - np.float32(target), np.float32(1))

    def move(self, gradient: np.ndarray[Any, Any]) -> None:
        self.value -= np.float32(0.1) * (gradient[:-1] / gradient[-1])

    def wrong(self, number: int) -> list[str]:
        """Sentences about what is wrong with it after step *number*."""
        parts = self.value[: self.weights], self.value[self.weights :]
        spread = max(float(np.ptp(part)) for part in parts)
        if spread < ALIKE and np.abs(self.value).max() < FARTHEST:
            return []
        return [f"step {number}: from {self.value.min()} to {self.value.max()}"]


def strategy_of(
    way: str, communicator: ft.Communicator, vector: Vector, *, epochs: int
) -> Strategy:
    """The strategy that ``matex run`` makes from the words of its command line."""
    parser = Parser()
    add_options(parser, Config)
    arguments = parser.parse_args(["--strategy", *way.split()])
    config = Config.from_words(given_words(arguments, Config))
    return make_strategy(
        StrategyContext(
            communicator=communicator, replica=vector, options=config, seed=5, epochs=epochs
        )
    )


def main() -> None:
    begun = begin(lambda injector: injector.at("recovery"))
    plan, communicator, injector = begun.plan, begun.communicator, begun.injector
    rank = communicator.world.rank
    moments = Moments(injector, communicator, plan)
    work = Work(communicator, injector, welcome=lambda replaced: None)
    with ft.shielded(), begun.dog.working():
        number = 0
        for run, operations in enumerate(plan["runs"]):
            faulthandler.dump_traceback_later(STACKS_AFTER_S)
            digest, problems = hashlib.blake2b(digest_size=8), []
            vector, epochs = Vector(plan["sizes"][run]), -(-len(operations) // MEET_EVERY)
            strategy = strategy_of(plan["ways"][run], communicator, vector, epochs=epochs)
            for step, operation in enumerate(operations):
                if step % MEET_EVERY == 0:
                    strategy.epoch_begins(step // MEET_EVERY)
                injector.step = number
                injector.at("compute")
                strategy.before_step(number)
                with moments.inside("after-exchange"):
                    result, wrong = work.do(operation, number)
                problems += [wrong] if wrong else []
                digest.update(result)
                with moments.inside("in-strategy"):
                    vector.move(strategy.average_gradients(number, vector.gradient(rank)))
                    strategy.after_step(number)
                if step % MEET_EVERY == MEET_EVERY - 1 or step == len(operations) - 1:
                    with moments.inside("in-consensus"):
                        strategy.consensus()
                    strategy.epoch_ended(1.0)
                    digest.update(vector.value.tobytes())
                    problems += vector.wrong(number)
                number += 1
                begun.dog.progress()
            begun.log(
                "run", run=run, digest=digest.hexdigest(), wrong=problems,
                world=communicator.world.ranks, done=communicator.done,
            )  # fmt: skip
        communicator.leave()
    begun.log("end")
    begun.dog.stop()


if __name__ == "__main__":
    main()
