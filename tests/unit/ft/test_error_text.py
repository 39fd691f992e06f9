"""The line that names an error: its cause, whatever a framework prints above it."""

from __future__ import annotations

import pytest

from ft.error_text import in_one_line

OF_A_GRAPH = """Graph execution error:

Detected at node CheckNumerics defined at (most recent call last):
  File "script.py", line 9, in step

loss is nan : Tensor had NaN values
\t [[{{node CheckNumerics}}]] [Op:__inference_step_261]"""
OF_SEVERAL_NODES = """Graph execution error:

Detected at node A defined at (most recent call last):
Detected at node B defined at (most recent call last):
2 root error(s) found.
  (0) INVALID_ARGUMENT:  loss is nan
  (1) CANCELLED:  Function was cancelled before it was started
0 successful operations."""
OF_AUTOGRAPH = """in user code:

    File "script.py", line 9, in step  *
        raise ValueError("no such class")

    ValueError: no such class
"""
OF_A_LAYER = """Exception encountered when calling Dense.call().

\x1b[1mDimensions must be equal\x1b[0m

Arguments received by Dense.call():
  • inputs=tf.Tensor(shape=(2, 3), dtype=float32)"""
OF_A_PIPELINE = """{{function_node __wrapped__IteratorGetNext_device_/device:CPU:0}} Error in \
user-defined function passed to ParallelMapDatasetV2:36 transformation with iterator: \
Iterator::Root::Prefetch::ParallelBatch[0]::Map: assertion failed: [no energy] [3]
\t [[{{node assert_less/Assert}}]] [Op:IteratorGetNext] name: """
OF_A_BATCH = (
    "{{function_node __wrapped__A}} Cannot add tensor: [0], [1] [Op:IteratorGetNext] name: "
)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("the disk is full\n  of files", ": the disk is full"),
        ("these are missing:\n  a\n  b", ": these are missing:"),
        (OF_A_GRAPH, ": loss is nan : Tensor had NaN values"),
        (OF_SEVERAL_NODES, ": (0) INVALID_ARGUMENT:  loss is nan"),
        (OF_AUTOGRAPH, ": no such class"),
        (OF_A_LAYER, ": Dimensions must be equal"),
        (OF_A_PIPELINE, ": in a function of tf.data: assertion failed: [no energy] [3]"),
        (OF_A_BATCH, ": Cannot add tensor: [0], [1]"),
        ("Rows differ.'x' sizes: 3\n'y' sizes: 2\n", ": Rows differ.'x' sizes: 3, 'y' sizes: 2"),
        ("Graph execution error:", ": Graph execution error:"),
        ("", ""),
    ],
    ids=[
        "plain",
        "list",
        "graph",
        "nodes",
        "autograph",
        "layer",
        "pipeline",
        "batch",
        "sizes",
        "heading-alone",
        "nothing",
    ],
)
def test_it_names_the_cause(text: str, cause: str) -> None:
    assert in_one_line(ValueError(text)) == f"ValueError{cause}"
