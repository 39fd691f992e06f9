"""The export of a checkpoint as a model, for plain Keras and for archives.

Keras builds a model from the text in a checkpoint, which may name code: a Lambda layer
carries its own, and other objects name a module to import. Neither is accepted unless the
user allows it. The described model is built without memory first and compared with the
arrays, so that the text alone cannot make a process allocate any amount of memory.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import checkpoints
from matex import keras_hooks
from matex.checkpointing import model_state
from matex.checkpointing.locate import find
from matex.errors import InputError

__all__ = ["archive", "export", "load", "load_weights", "model_of"]

_OWN_MODULES = ("keras", "builtins")
# Names of classes by which Keras stores a function's code itself.
_CODE = ("Lambda", "__lambda__", "TorchModuleWrapper")
# Exceptions of Keras for an invalid description, which depend on the place.
_MALFORMED = (
    *(TypeError, ValueError, KeyError, IndexError, AttributeError, ImportError),
    *(RuntimeError, RecursionError, NotImplementedError),
)


def load(
    path: str | os.PathLike[str],
    *,
    custom_objects: Mapping[str, Any] | None = None,
    allow_lambda: Collection[str] = (),
) -> Any:
    """Keras model of a checkpoint, or of the newest valid one of a directory. Local.

    It is not compiled. Works with and without ``matex run``.

    Args:
        custom_objects: classes of the model that are not Keras's own, by name.
        allow_lambda: names of Lambda layers whose code may be loaded.

    Raises:
        InputError: no model can be made of the checkpoint; the message gives the reason.
        checkpoints.CheckpointError: it is damaged, or cannot be read.
    """
    _, snapshot = find(Path(path))
    return model_of(snapshot, custom_objects=custom_objects, allow_lambda=allow_lambda)


def model_of(
    snapshot: checkpoints.Snapshot,
    *,
    custom_objects: Mapping[str, Any] | None = None,
    allow_lambda: Collection[str] = (),
) -> Any:
    """The Keras model of *snapshot*; see :func:`load`."""
    if not snapshot.architecture:
        raise InputError(
            "a checkpoint that describes its model is wanted, of a Sequential or functional one. "
            "Received: one of a model that only its own code can make; "
            "make it so, and use matex.load_weights(model, path)"
        )
    known = dict(custom_objects or {})
    try:
        _refuse_code(_described(snapshot), known, allow_lambda)
        with keras_hooks.without_memory():
            _matched(_built(_described(snapshot), known, allow_lambda), snapshot)
        model = _built(_described(snapshot), known, allow_lambda)
    except InputError:
        raise
    except _MALFORMED as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise InputError(
            f"this Keras cannot read the description of the model. Received: {lines[0][:200]}; "
            "give classes that are not Keras's own as custom_objects"
        ) from error
    _assign(_matched(model, snapshot))
    return model


def load_weights(model: Any, path: str | os.PathLike[str]) -> None:
    """Set the weights of *model* from a checkpoint with the same weights. Local.

    Variables are matched by their order. Nothing is changed unless all fit.

    Raises:
        InputError: the weights belong to another model.
        checkpoints.CheckpointError: it is damaged, or cannot be read.
    """
    _assign(_matched(model, find(Path(path))[1]))


def export(
    snapshot: checkpoints.Snapshot, out: Path, *, allow_lambda: Collection[str] = ()
) -> None:
    """Write the model to *out*, for plain Keras: ``.keras`` or ``.weights.h5``, whole or not.

    Raises:
        InputError: another kind of name, or no model can be made.
    """
    if not out.name.endswith((".keras", ".weights.h5")):
        raise InputError(f"OUT must end with .keras or .weights.h5. Received: {out.name}")
    model = model_of(snapshot, allow_lambda=allow_lambda)
    with _written(out) as aside:
        if out.name.endswith(".keras"):
            model.save(aside)
        else:
            model.save_weights(aside)


def archive(snapshot: checkpoints.Snapshot, out: Path) -> None:
    """Write only weights, float32 rounded to bfloat16, and the model's description.

    Raises:
        InputError: the place cannot be written.
    """
    weights = {name: _short(array) for name, array in snapshot.weights.items()}
    small = checkpoints.Snapshot(
        weights=weights,
        cursor=dict(snapshot.cursor),
        architecture=snapshot.architecture,
        extra={model_state.ARCHIVE: np.array(True)},
    )
    with _written(out) as aside:
        checkpoints.write_snapshot(aside, small)


def _short(array: np.ndarray) -> np.ndarray:
    import ml_dtypes  # comes with TensorFlow

    return array.astype(ml_dtypes.bfloat16) if array.dtype == np.float32 else array


@contextlib.contextmanager
def _written(out: Path) -> Iterator[Path]:
    """Context with a name beside *out*, renamed to *out* if the file is complete, else removed."""
    aside = out.with_name(f".{os.getpid()}.{out.name}")
    try:
        yield aside
        aside.replace(out)
    except OSError as error:
        raise InputError(f"{out} cannot be written: {error.strerror or error}") from error
    finally:
        aside.unlink(missing_ok=True)


def _described(snapshot: checkpoints.Snapshot) -> Any:
    """Keras's description of the model, uncompiled; a copy, because Keras changes it."""

    def uncompiled(node: dict[str, Any]) -> dict[str, Any]:
        node.pop("compile_config", None)
        return node

    return json.loads(snapshot.architecture, object_hook=uncompiled)


def _built(description: Any, known: dict[str, Any], allow_lambda: Collection[str]) -> Any:
    model = keras_hooks.described(description, known, allows_code=bool(allow_lambda))
    if not keras_hooks.is_model(model):
        raise InputError(f"a model is wanted. Received: a description of {type(model).__name__}")
    return model


def _matched(model: Any, snapshot: checkpoints.Snapshot) -> list[tuple[Any, np.ndarray]]:
    return model_state.matched("weights", model_state.weights_of(model), snapshot.weights)


def _assign(pairs: list[tuple[Any, np.ndarray]]) -> None:
    for variable, value in pairs:
        variable.assign(value.astype(variable.dtype) if value.dtype.kind == "V" else value)


def _refuse_code(description: Any, known: Mapping[str, Any], allow_lambda: Collection[str]) -> None:
    """Refuse a description with other names than Keras's classes and those given.

    Raises:
        InputError: it names the others.
    """
    waiting = [(description, False)]
    while waiting:
        node, allowed = waiting.pop()
        if isinstance(node, list):
            waiting += [(part, allowed) for part in node]
        if not isinstance(node, dict):
            continue
        kind, module = node.get("class_name"), node.get("module")
        config = node.get("config")
        if kind in _CODE and not allowed:
            name = config.get("name", kind) if isinstance(config, dict) else kind
            if name not in allow_lambda:
                raise InputError(
                    "a description of a model without code of its own is wanted. Received: the "
                    f"{kind} {name!r}, whose code would be run; if you trust who made the "
                    f"checkpoint, allow it by name: allow_lambda=[{name!r}] (--allow-lambda {name})"
                )
            allowed = True
        if module is not None and str(module).partition(".")[0] not in _OWN_MODULES:
            names = {str(kind), str(node.get("registered_name"))}
            if not names & set(known):
                raise InputError(
                    "a description of Keras's own classes is wanted. Received: "
                    f"{module}.{kind}; give it as custom_objects={{{str(kind)!r}: ...}}"
                )
        waiting += [(part, allowed) for part in node.values()]
