"""Random generators that a script shares with matex, which must not advance them."""

from __future__ import annotations

import contextlib
import hashlib
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from keras.src.backend.common import global_state
from keras.src.random.seed_generator import SeedGenerator, global_seed_generator
from tensorflow.python.eager import context

from matex.partition.order import OrderSeed
from matex.replacing import replaced

__all__ = [
    "Generators",
    "IdleDraws",
    "OrderSeeds",
    "generators_kept",
    "global_generator",
    "made_global_generator",
]

# Keras 3's own name for the generator of unseeded draws.
_OF_KERAS = "global_seed_generator"

# TensorFlow takes a seed modulo this (framework/random_seed.py).
_SEEDS = 2**31 - 1


def _of_tensorflow() -> random.Random | None:
    """Generator of eager operations' seeds; None before the first seed is set."""
    generator: random.Random | None = getattr(context.context(), "_rng", None)
    return generator


def global_generator() -> Any:
    """Keras's generator for unseeded draws; None before the first such draw."""
    return global_state.get_global_attribute(_OF_KERAS)


def made_global_generator() -> Any:
    """Keras's generator for unseeded draws, created if necessary."""
    return global_seed_generator()


class Generators:
    """The present states of all global random generators. Local.

    Those of Python, NumPy, TensorFlow's eager operations, and Keras.
    """

    def __init__(self) -> None:
        self._python = random.getstate()
        self._numpy = np.random.get_state()  # noqa: NPY002 - the script's own
        eager = _of_tensorflow()
        self._tensorflow = None if eager is None else eager.getstate()
        self._keras = global_state.get_global_attribute(_OF_KERAS)
        self._of_keras = None if self._keras is None else self._keras.state.numpy()

    def put_back(self, *, built: bool = False, host: bool = True) -> None:
        """Restore the generators' states.

        Args:
            built: layers may have been made since, which draw their seeds from Python's: that one
                stays where it is.
            host: Python's and NumPy's may have been drawn from here. Elsewhere they stay: a thread
                that prepares data may be drawing from them.
        """
        if host:
            np.random.set_state(self._numpy)  # noqa: NPY002 - the script's own
        eager = _of_tensorflow()
        if eager is not None and self._tensorflow not in (None, eager.getstate()):
            eager.setstate(self._tensorflow)
            # Operations of the same seeds would go on, not start again.
            context.context().clear_kernel_cache()
        if host and not built:
            random.setstate(self._python)
        if self._keras is not None or not built:
            global_state.set_global_attribute(_OF_KERAS, self._keras)
        if self._keras is not None:
            self._keras.state.assign(self._of_keras)

    def moved(self, *, eager: bool = False) -> list[str]:
        """Generators of Python's and NumPy's that are elsewhere now.

        Args:
            eager: whether that of TensorFlow's eager operations counts, too. False by default.
        """
        now = Generators()
        pairs: dict[str, tuple[Any, Any]] = {
            "Python": (self._python, now._python),
            "NumPy": (repr(self._numpy), repr(now._numpy)),
        }
        if eager:
            pairs["TensorFlow"] = self._tensorflow, now._tensorflow
        return [name for name, (before, after) in pairs.items() if before != after]

    @staticmethod
    @contextlib.contextmanager
    def moved_by(call: Callable[[Any], Any]) -> Iterator[Callable[[Any], Any]]:
        """Context in which only the draws of *call* advance generators. Local.

        Yields the function to be called in its place. Its draws are as if there had been no other
        draws inside before. If layers are made inside, Python's generator is not restored.
        """
        before = Generators()

        def drawing(given: Any) -> Any:
            nonlocal before
            before.put_back(built=True)
            try:
                return call(given)
            finally:
                before = Generators()

        try:
            yield drawing
        finally:
            before.put_back(built=True)


@contextlib.contextmanager
def generators_kept(*, host: bool = True) -> Iterator[list[str]]:
    """Context at whose end all global generators are restored. Local.

    Gives a list, which afterwards names the generators of Python and NumPy that were drawn from.

    Args:
        host: it may draw from Python's and NumPy's, too; see :meth:`Generators.put_back`.
    """
    before = Generators()
    names: list[str] = []
    try:
        yield names
    finally:
        if host:
            names += before.moved()
        before.put_back(host=host)


class IdleDraws:
    """Draws of a step that nothing uses, as recurrent layers with dropout make where none trains.

    Keras advances their seed generators in each step all the same. Ranks that share steps make
    others than a single process, so there the generators stand still, and are advanced by the
    number of its steps. Local.
    """

    def __init__(self) -> None:
        self._draws: dict[int, tuple[SeedGenerator, int]] = {}

    @property
    def states(self) -> list[Any]:
        """Variables of Keras, of shape (2,): the states of the generators that were drawn from."""
        return [generator.state for generator, _ in self._draws.values()]

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Context of the step's trace, whose draws are noted and advance no generator."""
        original, tracing = SeedGenerator.next, threading.get_ident()
        self._draws = {}

        def next_of(generator: SeedGenerator, ordered: bool = True) -> Any:
            if not ordered or threading.get_ident() != tracing:  # one that makes batches
                return original(generator, ordered)
            _, before = self._draws.get(id(generator), (generator, 0))
            self._draws[id(generator)] = generator, before + 1
            return _later(generator, before)

        with replaced(SeedGenerator, "next", next_of):
            yield

    def advance(self, steps: int) -> None:
        """Advance the generators as so many *steps* of a single process do."""
        for generator, draws in self._draws.values():
            generator.state.assign(_later(generator, steps * draws))

    @contextlib.contextmanager
    def counted(self, steps: int) -> Iterator[None]:
        """Context after which the generators are advanced by *steps*, whatever was made inside."""
        before = [state.numpy() for state in self.states]
        try:
            yield
        finally:
            for state, value in zip(self.states, before, strict=True):
                state.assign(value)
            self.advance(steps)


def _later(generator: SeedGenerator, draws: int) -> Any:
    """State of *generator* after so many *draws* of any size."""
    state = generator.state
    return state.value + generator.backend.convert_to_tensor([0, draws], dtype=state.dtype)


class OrderSeeds:
    """Seeds of the sample orders of a script's fits. Local.

    They follow from the script's own seeds: a script that reseeds all generators before each fit
    gets the same order each time. The generators belong to the script and are not advanced, or it
    would draw other numbers afterwards than without matex; so fits without draws between them are
    distinguished by their count.

    Seeds that were set before this object was made are matex's, not the script's.
    """

    def __init__(self) -> None:
        self._before_script = _of_tensorflow()
        self._stands: tuple[object, bytes] | None = None
        self._count = 0

    def next(self) -> OrderSeed:
        """Seeds of the next fit; called once for each fit."""
        numpy = hashlib.blake2b(digest_size=16)
        for part in np.random.get_state(legacy=True):  # noqa: NPY002 - the script's own
            numpy.update(np.asarray(part).tobytes())
        # TensorFlow makes another generator each time it is seeded.
        stands = _of_tensorflow(), numpy.digest()
        before = self._stands
        again = before is not None and before[0] is stands[0] and before[1] == stands[1]
        self._count = self._count + 1 if again else 0
        self._stands = stands
        of_fit = numpy.copy()
        of_fit.update(self._count.to_bytes(8, "little"))
        own = int.from_bytes(of_fit.digest()[:4], "little") >> 1
        return OrderSeed(own, self._of_script())

    def _of_script(self) -> int | None:
        """Seed that the script set for all TensorFlow operations; None if it set none."""
        if _of_tensorflow() is self._before_script:
            return None
        seed: int | None = context.global_seed()
        return None if seed is None else seed % _SEEDS
