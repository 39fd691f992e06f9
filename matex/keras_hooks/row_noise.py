"""Random numbers for the rows of a batch: each rank draws those of one process."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
from keras.src import backend
from keras.src.random.seed_generator import SeedGenerator
from tensorflow.python.ops import gen_random_ops as stateful_draws
from tensorflow.python.ops import gen_stateless_random_ops_v2 as stateless_draws
from tensorflow.python.ops import shape_util

from matex.errors import NotShareable
from matex.keras_hooks.drawn_rows import NoiseRows, RowAxis
from matex.keras_hooks.generators import global_generator, made_global_generator
from matex.keras_hooks.noise_state import count_noise
from matex.keras_hooks.row_draws import RowDraws
from matex.replacing import replaced

__all__ = ["rows_of_noise", "with_global_generator"]

# TensorFlow's draws under Keras's, whose numbers can be drawn from any place on.
_ADDRESSABLE = (
    "stateless_random_uniform_v2",
    "stateless_random_uniform_int_v2",
    "stateless_random_uniform_full_int_v2",
    "stateless_random_normal_v2",
    "stateless_truncated_normal_v2",
)
# TensorFlow's draws with hidden state, and their stateless equivalents.
_STATEFUL = {
    "random_uniform": "stateless_random_uniform_v2",
    "random_uniform_int": "stateless_random_uniform_int_v2",
    "random_standard_normal": "stateless_random_normal_v2",
    "truncated_normal": "stateless_truncated_normal_v2",
}
# Keras's own functions whose result has a given shape. A trial replaces them by constants
# (quiet.py), except for results that are divided like the batch: their rows must differ.
_SHAPED = {
    name: getattr(backend.random, name)
    for name in ("normal", "uniform", "truncated_normal", "randint", "gamma", "binomial", "beta")
}
# Those of them that are drawn for the whole batch, for rows cannot be drawn alone.
_WHOLE = ("gamma", "binomial", "beta")
# Those whose rows are not told by a shape: ranks draw other numbers than one process.
_SHIFTED = ("categorical", "shuffle")


class _NeedsGenerator(BaseException):
    """A trace needed Keras's global generator, which does not exist yet.

    No ``except Exception`` of the script's is to catch it.
    """


def with_global_generator(trace: Callable[[], Any]) -> Any:
    """Result of *trace*, repeated if it needs Keras's global generator. Local.

    Keras makes that one by the first draw without a seed, from Python's own generator.
    """
    try:
        return trace()
    except _NeedsGenerator:
        made_global_generator()
        return trace()


@contextlib.contextmanager
def rows_of_noise(
    rows: NoiseRows, known: list[Any], axes: list[RowAxis | None], *, strict: bool = False
) -> Iterator[Callable[[Any], None]]:
    """Trace a train step inside: noise with a row for each of the batch's is cut like the batch.

    Noise is taken to have such rows where its first dimension is not known before the batch is, or
    a single one of the others. It may also have a whole number of blocks of them: a row for each
    fake and then for each real one. Other noise is the same on all ranks, as it is for all rows in
    one process.

    Returns a function of the number of the batch's rows, for the graph that commits the step. It
    advances the states that the step drew from without advancing them: TensorFlow's seeds, Keras's
    global generator.

    Args:
        rows: rows that are computed.
        known: seed variables (of TensorFlow) that the step keeps.
        axes: rows in the draws, in the order of the trace; None for a draw without. An
            empty list is filled; a filled one is used, where batches have a known size, and where
            a step that runs eagerly has but one row, which may be all that there is.
        strict: whether to refuse generators that are not *known*. False by default.

    Raises:
        NotShareable: a generator was used that is not known, and *strict* is given.

    It is to be called within :func:`with_global_generator`.
    """
    draws = RowDraws(rows, axes)
    noise = _KerasNoise(draws, {id(variable) for variable in known}, strict=strict)
    with contextlib.ExitStack() as stack:

        def substitute(module: Any, name: str, make: Callable[..., Any], *arguments: Any) -> None:
            new = make(getattr(module, name), *arguments)
            stack.enter_context(replaced(module, name, new))

        substitute(backend.random, "draw_seed", noise.seeding)
        substitute(shape_util, "maybe_set_static_shape", _but_for_rows, draws)
        for name, other in _STATEFUL.items():
            substitute(stateful_draws, name, draws.by_state, getattr(stateless_draws, other))
        for name in _ADDRESSABLE:
            substitute(stateless_draws, name, draws.by_place)
        for name in _SHAPED:
            substitute(backend.random, name, noise.shaped, name)
        for name in _SHIFTED:
            substitute(backend.random, name, noise.shifted, name)
        yield noise.advance


class _KerasNoise:
    """Substitutes of Keras's random functions while one step is traced."""

    def __init__(self, draws: RowDraws, known: set[int], *, strict: bool) -> None:
        self._draws = draws
        self._known = known
        self._strict = strict
        self._generator: Any = None
        self._seed: Any = None
        self._drawn_globally = 0

    def advance(self, rows: Any) -> None:
        """Advance the state of the step's draws by *rows* rows, in the graph of the commit."""
        if self._draws.drawn_by_state:
            count_noise(self._draws.rows.state, rows)
        if self._generator is not None:
            state = self._generator.state
            value = state.value + 0
            for _ in range(self._drawn_globally):
                value = _after(value)
            state.assign(value)

    def _of_all(self) -> Any:
        """Next seed of Keras's global generator, without advancing it."""
        if self._generator is None:
            self._generator = global_generator()
            if self._generator is None:
                raise _NeedsGenerator
            self._seed = tf.identity(self._generator.state.value)
        seed, self._seed = self._seed, _after(self._seed)
        self._drawn_globally += 1
        return seed

    def seeding(self, present: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """*present*, which gives the seed of a draw, for generators that are known alone."""

        def seed_of(seed: Any) -> Any:
            if seed is None and self._draws.follows_state:
                return self._of_all()
            is_known = isinstance(seed, SeedGenerator) and (
                isinstance(seed, _Fixed) or id(seed.state.value) in self._known
            )
            if self._strict and not is_known and not isinstance(seed, int):
                raise NotShareable(
                    "train_step draws random numbers from a generator that is no attribute of "
                    "the model"
                )
            return present(seed)

        return seed_of

    def shaped(self, present: Callable[..., Any], name: str) -> Callable[..., Any]:
        """*present*, Keras's function *name* or a trial's substitute, by rows."""
        original = _SHAPED[name]
        signature = inspect.signature(original)

        def draw(*args: Any, **kwargs: Any) -> Any:
            given = signature.bind(*args, **kwargs)
            shape = given.arguments["shape"]
            if not self._draws.is_open(shape, constant=True):
                return present(*args, **kwargs)
            if not self._draws.is_open(shape):  # an open one lets TensorFlow know no better
                shape = given.arguments["shape"] = [self._draws.rows.own, *shape[1:]]
            if name not in _WHOLE or not self._draws.rows.addressable:
                return original(*given.args, **given.kwargs)
            shape = tf.convert_to_tensor(shape, tf.int32)
            neighbours = self._draws.neighbours(shape)
            count, *rest = tf.unstack(shape)
            blocks = -(-count // tf.maximum(self._draws.rows.own, 1))
            given.arguments["shape"] = [blocks * self._draws.rows.whole, *rest]
            with self._draws.plainly():
                whole = original(*given.args, **given.kwargs)
            return tf.gather(whole, self._draws.places(count, neighbours))

        return draw

    def shifted(self, present: Callable[..., Any], name: str) -> Callable[..., Any]:
        """*present*, Keras's function *name*, with another seed on each rank."""
        signature = inspect.signature(present)

        def draw(*args: Any, **kwargs: Any) -> Any:
            self._draws.rows.note_shifted(name)
            given = signature.bind(*args, **kwargs)
            seed = backend.random.draw_seed(given.arguments.get("seed"))
            offset = tf.stack(
                [tf.cast(self._draws.rows.offset, seed.dtype), tf.zeros((), seed.dtype)]
            )
            given.arguments["seed"] = _Fixed(seed + offset)
            with self._draws.plainly():
                return present(*given.args, **given.kwargs)

        return draw


def _but_for_rows(present: Callable[[Any, Any], None], draws: RowDraws) -> Callable[..., None]:
    """Version of *present* that skips draws which :class:`RowDraws` makes row by row.

    *present* checks that a draw has the shape that the script asked for. A draw by rows has only
    this rank's rows, where the script asked for those of the whole batch.
    """

    def note(tensor: Any, shape: Any) -> None:
        if not (
            tensor.shape.rank and tensor.shape[0] is None and draws.is_open(shape, constant=True)
        ):
            present(tensor, shape)

    return note


def _after(seed: Any) -> Any:
    """The state of Keras's global generator after *seed*."""
    return (seed + 1) * 5387 % 933199


class _Fixed(SeedGenerator):
    """Generator that returns one seed that was drawn already."""

    def __init__(self, value: Any) -> None:  # the base would make a variable
        self._value = value

    def next(self, ordered: bool = True) -> Any:
        return self._value
