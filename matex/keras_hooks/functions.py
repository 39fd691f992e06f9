"""Functions of the script made by ``tf.function``: their calls and their code."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.autograph.impl import api
from tensorflow.python.eager.polymorphic_function import autograph_util
from tensorflow.python.framework import random_seed
from tensorflow.python.ops.resource_variable_ops import ResourceVariable

from matex.errors import InputError, LateVariable
from matex.replacing import replace

__all__ = [
    "argument_leaves",
    "as_function",
    "as_uncalled",
    "code_of",
    "input_dtypes",
    "name_of",
    "own_counter",
    "pack_arguments",
    "repeated",
    "told_of_variables",
    "variables_with_values",
    "watch_functions",
    "with_functions_inline",
]

Call = Callable[..., Any]

_FUNCTION: Any = type(tf.function(lambda: None))

_inline = 0


def watch_functions(call: Callable[[Call, Any, tuple[Any, ...], dict[str, Any]], Any]) -> None:
    """Route the calls of all functions of ``tf.function`` through *call*. Local, once.

    Functions that :func:`with_functions_inline` reaches are excepted.

    Args:
        call: function of TensorFlow's own ``__call__``, the function, and its arguments.
    """
    original = _FUNCTION.__call__

    @functools.wraps(original)
    def replacement(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _inline:
            return _called_inline(original, self, args, kwargs)
        return call(original, self, args, kwargs)

    replace(_FUNCTION, "__call__", replacement)


def with_functions_inline(step: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Result of the script's *step*, with functions of ``tf.function`` inlined into it.

    As calls they would keep their traces, which lack updates and contain random numbers of a graph
    of matex, and would use them for later callers. :func:`watch_functions` must have been called.
    Local.
    """
    global _inline  # noqa: PLW0603 - a property of the process, as the functions' class is
    _inline += 1
    try:
        return step(*args, **kwargs)
    finally:
        _inline -= 1


def as_function(code: Any) -> Any:
    """*code* as a function of ``tf.function``, unless it is one already.

    Raises:
        InputError: *code* cannot be called.
    """
    if isinstance(code, _FUNCTION):
        return code
    if not callable(code):
        raise InputError(f"a function was wanted. Received: {code!r:.80}")
    return tf.function(code)


def code_of(function: Any) -> Call:
    """Python code of *function* as TensorFlow traces it, with AutoGraph if enabled.

    Whether the caller's own code is converted makes no difference, as in a graph of its own.
    """
    code: Call = function.python_function
    if function._autograph:
        options = function._experimental_autograph_options
        converted = autograph_util.py_func_from_autograph(code, options)
        code = api.call_with_unspecified_conversion_status(converted)
    return code


def as_uncalled(function: Any) -> None:
    """Allow the next call of *function*, whose first trace was abandoned, to create variables.

    TensorFlow lets only the first make any, and that of an optimizer's first step does.
    """
    function._created_variables = None
    function._variable_creation_config = function._no_variable_creation_config = None


@contextlib.contextmanager
def told_of_variables(tell: Callable[[], None]) -> Iterator[None]:
    """Call *tell* before each variable that is made inside, in a graph or not. Local.

    It is not told of :func:`own_counter`.
    """

    def creator(make: Call, **arguments: Any) -> Any:
        tell()
        return make(**arguments)

    with tf.variable_creator_scope(creator):
        yield


def own_counter(name: str) -> Any:
    """A variable of int64, 0 at first, which is matex's and not the script's or Keras's."""
    return ResourceVariable(0, dtype=tf.int64, trainable=False, name=name)


def _called_inline(
    original: Call, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Result of *function*, with its operations in the graph being traced.

    TensorFlow numbers the drawing operations of a graph, for their seeds: these operations get the
    numbers that they would have in their own graph. Functions for XLA have a graph of their own,
    which *function* does not keep. A step that runs eagerly runs the script's in the same way, and
    TensorFlow's own, such as that of ``tf.vectorized_map``, as ever: they want a graph.
    """
    if function._jit_compile:
        unkept = function._clone(None)
        result = original(unkept, *args, **kwargs)
        function._jit_compile = unkept._jit_compile  # which ranks that exchange inside do without
        return result
    if tf.executing_eagerly():
        if function.python_function.__module__.startswith("tensorflow."):
            return original(function, *args, **kwargs)
        return code_of(function)(*args, **kwargs)
    numbers, graph = random_seed._graph_to_seed_dict, tf.compat.v1.get_default_graph()
    before = numbers.get(graph, 0)
    numbers[graph] = 0
    try:
        return code_of(function)(*args, **kwargs)
    finally:
        numbers[graph] = before


def name_of(function: Any) -> str:
    """The name of *function* in the script."""
    return str(getattr(function.python_function, "__name__", "a function"))


def input_dtypes(function: Any) -> list[Any] | None:
    """Declared dtypes of *function*, leaf by leaf; None if undeclared."""
    signature = function.input_signature
    if signature is None:
        return None
    return [spec.dtype for spec in tf.nest.flatten(signature)]


def argument_leaves(arguments: Any, dtypes: Sequence[Any] | None = None) -> list[Any]:
    """The leaves of *arguments* as ``tf.function`` takes them: arrays as tensors.

    Args:
        arguments: structure of arguments.
        dtypes: dtypes that the leaves are declared with; None by default.
    """
    leaves = tf.nest.flatten(arguments)
    if dtypes is not None and len(dtypes) == len(leaves):
        return [tf.convert_to_tensor(a, dtype) for a, dtype in zip(leaves, dtypes, strict=True)]
    arrays = (np.ndarray, np.generic)
    return [tf.convert_to_tensor(leaf) if isinstance(leaf, arrays) else leaf for leaf in leaves]


def pack_arguments(structure: Any, leaves: list[Any]) -> Any:
    """*leaves* in the form of the arguments *structure*."""
    return tf.nest.pack_sequence_as(structure, leaves)


def repeated(value: Any, rows: int) -> Any:
    """A tensor of as many *rows*, each of which is *value*, a tensor."""
    return tf.repeat(value[None], rows, axis=0)


@contextlib.contextmanager
def variables_with_values() -> Iterator[None]:
    """Context of a trace whose new variables have values even if it fails later.

    Raises:
        LateVariable: a variable is made of another one's value.
    """

    def creator(make: Callable[..., Any], **arguments: Any) -> Any:
        initial = arguments.get("initial_value")
        if isinstance(initial, tf.Variable | keras.Variable):
            raise LateVariable(
                "a variable begins with the value that another one has in the first step; make it "
                "before that step, or in build"
            )
        if not callable(initial):  # it may be computed in the trace
            return make(**arguments)
        return ResourceVariable(**arguments)

    with tf.variable_creator_scope(creator):
        yield
