"""Side effects of a traced step: random numbers, calls of Python, writes to variables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import auto_control_deps_utils
from tensorflow.python.framework.func_graph import FuncGraph

from matex import keras_hooks
from matex.errors import NotShareable

__all__ = [
    "ONE_FOR_ALL",
    "ForeignVariables",
    "constant_of",
    "depends_on",
    "drawing",
    "finds_nonfinite",
    "first_used",
    "has_loops",
    "in_own_function",
    "one_for_all",
    "read_variable",
    "refuse_drawing",
    "refuse_summaries",
    "repeated_inputs",
    "runs_python",
    "variables_in",
    "write_variable",
    "writes",
]

_DRAWS = ("StatelessRandom", "StatelessTruncated", "StatelessMultinomial", "StatelessShuffle",
          "StatelessParameterized", "StatelessSampleDistorted")  # fmt: skip
_SEEDS = ("StatelessRandomGetKeyCounter", "StatelessRandomGetAlg")
_FINITE = ("IsFinite", "IsInf", "IsNan")
_LOOPS = ("While", "StatelessWhile")
_PYTHON = ("PyFunc", "PyFuncStateless", "EagerPyFunc")

#: Part of the name of an operation whose result is common to all rows of a batch.
ONE_FOR_ALL = "one_for_all_rows"


def one_for_all(rows: Any) -> Any:
    """The value common to all *rows*, which may decide branches."""
    return tf.identity(rows[0], name=ONE_FOR_ALL)


def repeated_inputs(function: Any) -> set[int]:
    """Places of the inputs of *function* of which only :func:`one_for_all` takes the value."""
    places = {id(tensor.op): place for place, tensor in enumerate(function.inputs)}
    rows = [op.inputs[0].op for op in function.graph.get_operations() if ONE_FOR_ALL in op.name]
    return {places[id(row.inputs[0].op)] for row in rows if id(row.inputs[0].op) in places}


def drawing(function: Any) -> str:
    """Name of the operation by which *function* draws from TensorFlow's own seeds; "" if none.

    Its state is separate in every graph, so graphs, and ranks with other shares, would draw other
    numbers than a single process. Local.
    """
    for node in _nodes(function):
        if "seed" in node.attr and "seed2" in node.attr and not _drops_nothing(node):
            return str(node.op)
    return ""


def refuse_drawing(function: Any, generators: Iterable[str], *, name: str) -> None:
    """Raise if ranks would draw other random numbers for their rows than one process. Local.

    Args:
        function: concrete function of a train step, traced within
            :func:`matex.keras_hooks.rows_of_noise`.
        generators: names of the Python and NumPy generators that the trace drew from.
        name: name of the step.

    Raises:
        NotShareable: it names the source of the random numbers.
    """
    drawn = [f"from the generator of {generator}" for generator in generators]
    if operation := drawing(function):
        drawn.append(f"by {operation}")
    if drawn:
        raise NotShareable(
            f"{name} draws random numbers without a SeedGenerator, {' and '.join(drawn)}"
        )
    if operation := _drawn_before(function):
        raise NotShareable(
            f"{name} draws random numbers by {operation} where their rows cannot be told: in a "
            "function that was traced before, or by none of keras.random's functions"
        )


def _drawn_before(function: Any) -> str:
    """Operation of *function* that draws by a given seed for unknown rows; "" if none."""
    for node in _nodes(function):
        is_draw = node.op.startswith(_DRAWS) and not node.op.startswith(_SEEDS)
        if is_draw and keras_hooks.NOISE_SCOPE not in node.name:
            return str(node.op)
    return ""


def runs_python(function: Any) -> bool:
    """Whether *function* calls Python when it runs. Local."""
    return any(node.op in _PYTHON for node in _nodes(function))


def has_loops(function: Any) -> bool:
    """Whether *function* has a loop, as a recurrent layer is one. Local."""
    return any(node.op in _LOOPS for node in _nodes(function))


def finds_nonfinite(function: Any) -> bool:
    """Whether *function* looks for NaN or infinity in a value. Local."""
    return any(node.op in _FINITE for node in _nodes(function))


def refuse_summaries(function: Any, *, name: str) -> None:
    """Raise if *function* writes TensorFlow summaries, which would be of a rank's rows. Local.

    Args:
        function: concrete function of a step.
        name: name of the step.

    Raises:
        NotShareable: it does; a trial would write them, too.
    """
    if any(
        node.op.startswith("Write") and node.op.endswith("Summary") for node in _nodes(function)
    ):
        raise NotShareable(f"{name} writes summaries")


def writes(function: Any, *, but: Iterable[Any] = ()) -> bool:
    """Whether the concrete function *function* may change a variable outside *but*. Local.

    Args:
        function: concrete function.
        but: TensorFlow variables to ignore.
    """
    passed = {id(variable.handle) for variable in but}
    variables = {id(handle) for handle, _ in variables_in(function)} - passed
    inside = {id(inner) for outer, inner in function.graph.captures if id(outer) in variables}
    return any(
        id(handle) in inside
        for operation in function.graph.get_operations()
        for handle in auto_control_deps_utils.get_read_write_resource_inputs(operation)[1]
    )


def constant_of(tensor: Any) -> Any:
    """Array of the value of *tensor*, if it is a constant of its graph; else None. Local."""
    return tf.get_static_value(tensor)


def _nodes(function: Any) -> Iterator[Any]:
    graph = function.graph.as_graph_def()
    yield from graph.node
    for inner in graph.library.function:
        yield from inner.node_def


def _drops_nothing(node: Any) -> bool:
    """Whether *node* is the seeded operation of a cuDNN layer without dropout."""
    return "dropout" in node.attr and not node.attr["dropout"].f


def in_own_function(graph: Any) -> bool:
    """Whether a function called by *graph* is being traced, and not *graph* itself. Local.

    Branches and loops count as part of the graph.
    """
    inner: Any = tf.compat.v1.get_default_graph()
    while inner is not graph:
        if type(inner) is FuncGraph:
            return True
        inner = inner.outer_graph
    return False


def first_used(
    operations: Iterable[Any], graph: Any, variables: Iterable[Any], *, writes: bool = False
) -> str:
    """Name of the first of *variables* that *operations* of *graph* use; "" if none. Local.

    Args:
        operations: operations of the graph.
        graph: graph that is being traced.
        variables: variables of Keras or TensorFlow.
        writes: whether only operations that may change them count. False by default.
    """
    names = {id(each.handle): getattr(each, "path", each.name) for each in variables}
    inside = {id(inner): names.get(id(outer), "") for outer, inner in graph.captures}
    for operation in operations:
        reads, written = auto_control_deps_utils.get_read_write_resource_inputs(operation)
        for handle in (*written, *(() if writes else reads)):
            if found := inside.get(id(handle)):
                return found
    return ""


def depends_on(tensor: Any, variables: Iterable[Any]) -> bool:
    """Whether *tensor*, in a graph being traced, depends on one of *variables*. Local."""
    graph = tensor.graph
    handles = {id(variable.handle) for variable in variables}
    inside = {id(inner) for outer, inner in graph.captures if id(outer) in handles}
    seen: set[int] = set()
    left = [tensor]
    while left:
        one = left.pop()
        if id(one) in inside:
            return True
        if id(one.op) not in seen:
            seen.add(id(one.op))
            left += one.op.inputs
    return False


class ForeignVariables:
    """Variables that *function* accesses and that are not in *known*, tf.Variables. Local."""

    def __init__(self, function: Any, known: Iterable[Any]) -> None:
        handles = {id(variable.handle) for variable in known}
        self._handles = [
            (handle, dtype) for handle, dtype in variables_in(function) if id(handle) not in handles
        ]
        self._before = [read_variable(*handle) for handle in self._handles]

    def put_back(self) -> bool:
        """Restore the values from the construction; return whether any had changed."""
        changed = False
        for (handle, dtype), before in zip(self._handles, self._before, strict=True):
            now = read_variable(handle, dtype)
            if before is not None and now is not None and (now != before).any():
                write_variable(handle, before)
                changed = True
        return changed


def read_variable(handle: Any, dtype: Any) -> Any | None:
    """Value of the variable behind *handle*, as an array; None if it has none yet. Local."""
    try:
        return tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype).numpy()
    except tf.errors.FailedPreconditionError:
        return None


def write_variable(handle: Any, value: Any) -> None:
    """Assign the array *value* to the variable behind *handle*. Local."""
    tf.raw_ops.AssignVariableOp(resource=handle, value=tf.constant(value))


def variables_in(function: Any) -> list[tuple[Any, Any]]:
    """Handle and dtype of each variable that the concrete *function* accesses. Local."""
    return [
        (handle, dtype)
        for handle in function.captured_inputs
        if handle.dtype == tf.resource
        if (dtype := _dtype_of(handle)) is not None
    ]


def _dtype_of(handle: Any) -> Any | None:
    """Dtype of the variable behind *handle*; None for a table, a writer or another resource."""
    data = getattr(handle, "_handle_data", None)
    if data is None or not data.is_set or len(data.shape_and_type) != 1:
        return None
    return tf.dtypes.as_dtype(data.shape_and_type[0].dtype)
