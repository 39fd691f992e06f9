"""Operations of tf.data that order, repeat or skip elements without reading them.

Such an operation does the same to other elements, so it can be made again on other datasets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from matex.errors import NotShareable

__all__ = ["name_of", "passes_on", "reordered", "repeats", "resources_in"]

# To find a shuffle's generator, all that comes before it is written down, tensors included.
_MOST_BYTES = 64 << 20

_IGNORE = 1  # ExternalStatePolicy: a dataset that has state is written down without a warning


def passes_on(dataset: tf.data.Dataset) -> bool:
    """Whether :func:`reordered` can make the last operation of *dataset* again."""
    return type(dataset).__name__ in _MADE


def repeats(dataset: tf.data.Dataset) -> bool:
    """Whether some operation of *dataset* begins its input anew."""
    is_one = type(dataset).__name__ == "_RepeatDataset"
    return is_one or any(map(repeats, dataset._inputs()))


def name_of(dataset: tf.data.Dataset) -> str:
    """The last operation of *dataset*, for messages: as the method is named that made it."""
    kind = type(dataset).__name__.strip("_").removesuffix("Dataset").removeprefix("Parallel")
    return f"tf.data's {re.sub('(?<!^)(?=[A-Z])', '_', kind).lower()!r}"


def reordered(source: tf.data.Dataset, like: tf.data.Dataset) -> tf.data.Dataset:
    """The last operation of *like* on *source*, which has as many elements as its input. Local.

    Raises:
        NotShareable: no exactly equivalent operation can be made.
    """
    return _MADE[type(like).__name__](source, like)


def _with_options(source: tf.data.Dataset, like: tf.data.Dataset) -> tf.data.Dataset:
    return source.with_options(like.options())


def _shuffled(source: tf.data.Dataset, like: tf.data.Dataset) -> tf.data.Dataset:
    """Elements in the order of *like*: both draw from the same generator.

    Every pass draws from it anew, so passes of the script before the fit count.
    """
    spec = source.element_spec
    variant = tf.raw_ops.ShuffleDatasetV3(
        input_dataset=tf.data.experimental.to_variant(source),
        buffer_size=like._buffer_size,
        seed=like._seed,
        seed2=like._seed2,
        seed_generator=_generator_of(like),
        reshuffle_each_iteration=like._reshuffle_each_iteration,
        output_types=[leaf.dtype for leaf in tf.nest.flatten(spec)],
        output_shapes=[leaf.shape for leaf in tf.nest.flatten(spec)],
    )
    made = tf.data.experimental.from_variant(variant, spec)
    made._matex_like = like  # holds the generator
    return made


def _generator_of(shuffle: tf.data.Dataset) -> Any:
    """Resource from which *shuffle* draws its seeds.

    Raises:
        NotShareable: the resource cannot be found.
    """
    if sum(map(_bytes_of, _tensors(shuffle))) > _MOST_BYTES:
        raise NotShareable(
            f"it has a shuffle after a map of more than {_MOST_BYTES >> 20} MB in memory"
        )
    try:
        written = tf.raw_ops.DatasetToGraphV2(
            input_dataset=tf.data.experimental.to_variant(shuffle),
            external_state_policy=_IGNORE,
        )
    except tf.errors.OpError as error:
        reason = f"it has a shuffle that cannot be looked into ({error.message})"
        raise NotShareable(reason) from None
    graph = tf.compat.v1.GraphDef.FromString(written.numpy())
    nodes = {node.name: node for node in graph.node}
    last = next(node for node in graph.node if node.op == "_Retval").input[0]
    handle = nodes[nodes[last].input[-1]] if nodes[last].op == "ShuffleDatasetV3" else None
    if handle is None or handle.op != "Const":
        raise NotShareable("it has a shuffle whose generator cannot be found")
    return _constant(handle)


def _constant(node: Any) -> Any:
    """The tensor of a ``Const`` *node*."""
    graph = tf.compat.v1.GraphDef()
    graph.node.append(node)

    def imported() -> Any:
        return tf.graph_util.import_graph_def(graph, return_elements=[f"{node.name}:0"])

    (tensor,) = tf.compat.v1.wrap_function(imported, [])()
    return tensor


def _tensors(dataset: tf.data.Dataset) -> Iterator[Any]:
    """Tensors that are part of *dataset* and of all datasets upstream."""
    held = tf.nest.flatten([v for v in vars(dataset).values() if isinstance(v, list | tuple)])
    for function in dataset._functions():
        held += function.function.captured_inputs
    for tensor in held:
        if isinstance(tensor, tf.Tensor) and tensor.dtype not in (tf.resource, tf.variant):
            yield tensor
    for before in dataset._inputs():
        yield from _tensors(before)


def _bytes_of(tensor: Any) -> int:
    """Number of bytes that the values of *tensor* take, those of its texts included."""
    if tensor.dtype == tf.string:  # of one text, numpy() is bytes; of several, pointers
        return int(tf.reduce_sum(tf.strings.length(tensor)))
    return int(tensor.dtype.size * tensor.shape.num_elements())


def resources_in(dataset: tf.data.Dataset) -> frozenset[int]:
    """Identities of the handles of variables that functions of *dataset* use."""
    captured = [c for function in dataset._functions() for c in function.function.captured_inputs]
    own = {id(tensor) for tensor in captured if tensor.dtype == tf.resource}
    return frozenset(own.union(*map(resources_in, dataset._inputs())))


_MADE: dict[str, Callable[[tf.data.Dataset, tf.data.Dataset], tf.data.Dataset]] = {
    "_OptionsDataset": _with_options,
    "_PrefetchDataset": lambda source, like: source.prefetch(int(like._buffer_size)),
    "_RepeatDataset": lambda source, like: source.repeat(like._count),
    "_ShuffleDataset": _shuffled,
    "_SkipDataset": lambda source, like: source.skip(like._count),
    "_TakeDataset": lambda source, like: source.take(like._count),
}
