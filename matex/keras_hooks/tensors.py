"""Tensors, structures of them and graphs, for packages that do not import TensorFlow."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import tree
from tensorflow.python.framework import ops
from tensorflow.python.ops.resource_variable_ops import default_variable_creator_v2

from matex.keras_hooks.rows import with_rows

__all__ = [
    "EAGER_TENSOR",
    "TENSOR",
    "OpError",
    "as_tensors",
    "batch_spec",
    "cast",
    "constant",
    "flatten",
    "graph_of",
    "inputs_of",
    "is_data",
    "is_eager",
    "is_keras_variable",
    "is_model",
    "is_of_training",
    "is_optimizer",
    "is_tape",
    "is_tensor",
    "is_text",
    "is_variable",
    "made_variable",
    "map_gradients",
    "map_structure",
    "numbers_in",
    "outside_functions",
    "outside_graphs",
    "pack_as",
    "referred_value",
    "shapes_of_dense",
    "tensor_of",
    "variables_held",
    "whole_numbers",
]


#: Exception of a failing TensorFlow operation.
OpError = tf.errors.OpError

#: Class of all tensors, and base class of those that have a value.
TENSOR, EAGER_TENSOR = tf.Tensor, ops._EagerTensorBase

# No state of a script's own objects: what is trained, what it is trained with, and descriptions.
_OF_TRAINING: tuple[type, ...] = (
    keras.Model,
    keras.layers.Layer,
    keras.optimizers.Optimizer,
    keras.losses.Loss,
    keras.optimizers.schedules.LearningRateSchedule,
    keras.initializers.Initializer,
    keras.regularizers.Regularizer,
    keras.constraints.Constraint,
    keras.DTypePolicy,
    keras.utils.PyDataset,
    keras.KerasTensor,
    tf.Module,
    tf.data.Dataset,
    tf.data.Options,
    tf.DType,
    tf.TypeSpec,
    tf.TensorShape,
    tf.Graph,
    tf.summary.SummaryWriter,
    tf.types.experimental.PolymorphicFunction,
)

# Creators of variables are called from high to low: the script's have 100, a function's has 50.
_BEFORE_FUNCTIONS = 51

# One tensor.


def tensor_of(value: Any) -> Any:
    """*value* as a tensor, in the graph that is being traced, if any."""
    return tf.convert_to_tensor(value)


def constant(array: Any) -> Any:
    """*array* as an eager tensor."""
    return tf.constant(array)


def cast(array: Any, dtype: Any) -> Any:
    """*array* as an eager tensor of *dtype*, by name or by TensorFlow's type."""
    return tf.cast(array, dtype)


def numbers_in(value: Any) -> tuple[str, np.ndarray] | None:
    """The type of a tensor or variable by name, and its numbers; None where it has none."""
    dtype = tf.as_dtype(value.dtype)
    known = dtype.is_floating or dtype.is_integer or dtype.is_complex or dtype.is_bool
    if not known or not hasattr(value, "numpy"):
        return None
    array = np.asarray(value.numpy())
    # NumPy's text for bfloat16 and smaller types is none; float32 holds all their values.
    return dtype.name, array.astype(np.float32) if array.dtype.kind == "V" else array


def made_variable(value: Any, *, of_keras: bool, trainable: bool) -> Any:
    """A new variable, of Keras or of TensorFlow, of the type of the tensor *value*."""
    if of_keras:
        return keras.Variable(value, dtype=value.dtype.name, trainable=trainable)
    return tf.Variable(value, trainable=trainable)


def variables_held(value: Any) -> list[Any] | None:
    """Variables of a metric or of a random generator of Keras or TensorFlow; None of others."""
    if isinstance(value, keras.metrics.Metric):
        return list(value.variables)
    random = isinstance(value, keras.random.SeedGenerator | tf.random.Generator)
    return [value.state] if random else None


def referred_value(variable: Any) -> Any:
    """A tensor that refers to the value of *variable*, which is not copied."""
    value = variable.value
    # Three times as quick as its read_value(), which adds an identity.
    return tf.raw_ops.ReadVariableOp(resource=value.handle, dtype=value.dtype)


def whole_numbers(values: Sequence[int]) -> Any:
    """A variable of int64 with *values*, which nothing trains."""
    return tf.Variable(values, trainable=False, dtype=tf.int64)


# Kinds.


def is_tensor(value: Any) -> bool:
    """Whether *value* is a dense tensor."""
    return isinstance(value, tf.Tensor)


def shapes_of_dense(values: Sequence[Any]) -> tuple[Any, ...] | None:
    """Dtypes and shapes of *values*; None unless all are dense tensors with values."""
    if not all(isinstance(value, tf.Tensor) and hasattr(value, "numpy") for value in values):
        return None
    return tuple((value.dtype, *value.shape) for value in values)


def is_data(value: Any) -> bool:
    """Whether *value* is a tensor of numbers or strings, and not a handle."""
    return bool(tf.is_tensor(value)) and value.dtype not in (tf.variant, tf.resource)


def is_text(tensor: Any) -> bool:
    """Whether *tensor* is a string tensor."""
    return bool(tensor.dtype == tf.string)


def is_keras_variable(value: Any) -> bool:
    """Whether *value* is a variable of Keras."""
    return isinstance(value, keras.Variable)


def is_variable(value: Any) -> bool:
    """Whether *value* is a variable of Keras or of TensorFlow."""
    return isinstance(value, keras.Variable | tf.Variable)


def is_model(value: Any) -> bool:
    """Whether *value* is a model of Keras."""
    return isinstance(value, keras.Model)


def is_optimizer(value: Any) -> bool:
    """Whether *value* is an optimizer of Keras 3."""
    return isinstance(value, keras.optimizers.Optimizer)


def is_of_training(value: Any) -> bool:
    """Whether *value* is a model, or something that a training is made of, such as a loss."""
    return isinstance(value, _OF_TRAINING)


def is_tape(value: Any) -> bool:
    """Whether *value* is a tape that records gradients."""
    return isinstance(value, tf.GradientTape)


# Structures of tensors.


def flatten(structure: Any) -> list[Any]:
    """The leaves of *structure*."""
    leaves: list[Any] = tree.flatten(structure)
    return leaves


def pack_as(structure: Any, leaves: Sequence[Any]) -> Any:
    """*leaves* in the form of *structure*."""
    return tree.pack_sequence_as(structure, leaves)


def map_structure(call: Callable[..., Any], *structures: Any) -> Any:
    """Structure of the results of *call* for the leaves; None is a leaf."""
    return tree.map_structure(call, *structures)


def map_gradients(
    call: Callable[[list[Any], list[Any]], list[Any]], gradients: Any, sources: Any
) -> Any:
    """Apply *call* to the leaves of *gradients* and *sources*, in the form of the first."""
    return tf.nest.pack_sequence_as(
        gradients, call(tf.nest.flatten(gradients), tf.nest.flatten(sources))
    )


def as_tensors(batch: Any) -> Any:
    """Structure *batch* with tensors or None as leaves; sparse and ragged ones are kept."""

    def tensor_of(leaf: Any) -> Any:
        is_there = leaf is None or isinstance(leaf, tf.SparseTensor | tf.RaggedTensor)
        return leaf if is_there else tf.convert_to_tensor(leaf)

    return tree.map_structure(tensor_of, batch)


def batch_spec(batch: Any) -> Any:
    """The specifications of the tensors of *batch*, with a free batch dimension."""
    return tree.map_structure(_specification, batch)


def _specification(tensor: Any) -> Any:
    if tensor is None:
        return tf.OptionalSpec(None)
    spec = tf.type_spec_from_value(tensor)
    return with_rows(spec, None) if spec.shape.rank else spec


def inputs_of(data: Any) -> Any:
    """Inputs of *data*, the argument of ``train_step``, as tensors."""
    inputs, *_ = keras.utils.unpack_x_y_sample_weight(data)
    return as_tensors(inputs)


# Graphs.


def is_eager() -> bool:
    """Whether no graph is being traced here."""
    return bool(tf.executing_eagerly())


def outside_graphs() -> AbstractContextManager[None]:
    """Context of eager execution, even if a graph is being traced."""
    scope: AbstractContextManager[None] = tf.init_scope()
    return scope


@contextlib.contextmanager
def outside_functions() -> Iterator[None]:
    """Make variables inside that are no matter of a function that is being traced. Local.

    TensorFlow watches for variables while it traces, even outside of the graph, and where one was
    made it traces all of the function once more.
    """

    def creator(_: Callable[..., Any], **arguments: Any) -> Any:
        return default_variable_creator_v2(**arguments)

    with tf.init_scope():
        graph = tf.compat.v1.get_default_graph()
        with graph._variable_creator_scope(creator, priority=_BEFORE_FUNCTIONS):
            yield


def graph_of(call: Callable[..., Any], *signature: Any) -> Any:
    """*call* as a graph for arguments of *signature*, without AutoGraph."""
    function = tf.function(call, input_signature=signature, autograph=False)
    # It is traced once, but TensorFlow warns as if functions of the same code were one function.
    function._omit_frequent_tracing_warning = True
    return function
