"""TensorFlow's own functions on files, which do not go through Python's.

Its file library is replaced by :mod:`matex.process.tensorflow_library`. Functions that open files
in C++ get the name of the rank's own file.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from matex.files import real
from matex.files.interface import Files
from matex.files.ledger import Change
from matex.files.scratch import ALIAS
from matex.files.view import FileView
from matex.files.writing import to_write
from matex.process.pipeline_files import CHECKPOINT_DATA, cache_place, snapshot_place
from matex.process.tensorflow_library import NOWHERE, FileLibrary, local_path
from matex.replacing import replace, replace_everywhere

__all__ = ["install", "install_cache"]

# (owner, function or class, parameter, how its paths are meant)
_TABLE = (
    ("io", "read_file", "filename", "read"),
    ("io", "write_file", "filename", "write"),
    ("io", "TFRecordWriter", "path", "write"),
    ("data", "TFRecordDataset", "filenames", "read"),
    ("data", "TextLineDataset", "filenames", "read"),
    ("data", "FixedLengthRecordDataset", "filenames", "read"),
    ("data.experimental", "CsvDataset", "filenames", "read"),
    ("compat.v1.io", "tf_record_iterator", "path", "read"),
    ("lookup", "TextFileInitializer", "filename", "read"),
    ("saved_model", "save", "export_dir", "write tree"),
    ("saved_model", "load", "export_dir", "read"),
    ("summary", "create_file_writer", "logdir", "write tree"),
    ("compat.v1.summary", "FileWriter", "logdir", "write tree"),
    ("train", "load_checkpoint", "ckpt_dir_or_file", "read names"),
)

# Methods of tf.data.Dataset; "keep": files of an earlier run are read, and not written anew.
_METHODS = (
    ("cache", "filename", "keep cache"),
    ("save", "path", "write tree"),
    ("snapshot", "path", "keep snapshot"),
)

# Methods of the saver of tf.train.Checkpoint.
_SAVER = (("save", "file_prefix", "write names"), ("restore", "save_path", "read names"))


def install(files: Files) -> None:
    """Replace TensorFlow's file functions, for the rest of the process. Local."""
    file_io = inspect.getmodule(tf.io.gfile.exists)
    assert file_io is not None
    library = FileLibrary(files, vars(file_io)["_pywrap_file_io"])
    replace(file_io, "_pywrap_file_io", library)
    functions: dict[Any, Any] = {tf.io.matching_files: _matching(files, library)}
    for place, name, parameter, how in _TABLE:
        original = functools.reduce(getattr, [*place.split("."), name], tf)
        if inspect.isclass(original):
            new = _translating(files, original.__init__, parameter, how)
            replace(original, "__init__", new)
        else:
            functions[original] = _translating(files, original, parameter, how)
    replace_everywhere("tensorflow", functions)
    _install_methods(files, _METHODS)
    load = _translating(files, tf.data.Dataset.load, "path", "read")
    replace(tf.data.Dataset, "load", staticmethod(load))
    saver = vars(inspect.getmodule(tf.train.Checkpoint))["TrackableSaver"]
    for name, parameter, how in _SAVER:
        replace(saver, name, _translating(files, getattr(saver, name), parameter, how))


def install_cache(files: Files) -> None:
    """Replace the method that caches a pipeline in a file alone, which a killed start may have
    left unfinished. Local.
    """
    _install_methods(files, _METHODS[:1])


def _install_methods(files: Files, methods: Iterable[tuple[str, str, str]]) -> None:
    for name, parameter, how in methods:
        method = getattr(tf.data.Dataset, name)
        replace(tf.data.Dataset, name, _translating(files, method, parameter, how))


def _translating(
    files: Files, original: Callable[..., Any], parameter: str, how: str
) -> Callable[..., Any]:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        view = files.view()
        if view is None or (how.startswith("read") and view.is_plain):
            return original(*args, **kwargs)
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            return original(*args, **kwargs)  # which raises the proper error
        if parameter not in bound.arguments:
            return original(*args, **kwargs)
        given = bound.arguments[parameter]
        bound.arguments[parameter] = place = _places(files, view, given, how)
        while True:
            try:
                result = original(*bound.args, **bound.kwargs)
            except tf.errors.OpError:
                if not _moved(files, view, given, how, place):
                    raise
            else:
                if not _moved(files, view, given, how, place):
                    return result if place is given else _as_given(result, given, place)
            bound.arguments[parameter] = place = _places(files, view, given, how)

    return call


def _moved(files: Files, view: FileView, given: Any, how: str, place: Any) -> bool:
    """Whether the leader has changed a file that was read, so the read does not count."""
    if not how.startswith("read"):
        return False
    now = _places(files, view, given, how)
    if now is place:
        return False
    if isinstance(now, tf.Tensor) and isinstance(place, tf.Tensor):
        return bool(tf.reduce_any(now != place))
    return bool(now != place)


def _as_given(result: Any, given: Any, place: Any) -> Any:
    """*result* with *given*, the script's path, in place of a leading *place*."""
    if not isinstance(place, str) or not isinstance(given, str | os.PathLike):
        return result
    if isinstance(result, tf.Tensor) and result.dtype == tf.string and hasattr(result, "numpy"):
        text = result.numpy()
        if isinstance(text, bytes) and text.startswith(os.fsencode(place)):
            return tf.constant(os.fsencode(given) + text[len(os.fsencode(place)) :])
    if isinstance(result, str) and result.startswith(place):
        return os.fspath(given) + result[len(place) :]
    return result


def _places(files: Files, view: FileView, given: Any, how: str) -> Any:
    if isinstance(given, list | tuple):
        return [_places(files, view, one, how) for one in given]
    text = given
    if isinstance(given, tf.Tensor) and given.dtype == tf.string and hasattr(given, "numpy"):
        if given.shape.rank:
            flat = [_places(files, view, one, how) for one in given.numpy().reshape(-1)]
            return tf.reshape(tf.constant(flat, tf.string), given.shape)
        text = given.numpy()
    if not isinstance(text, str | bytes | os.PathLike):
        return given
    path = local_path(files, text)
    if path is None:
        return given
    place = _place(view, path, how)
    return given if place == path else place


def _place(view: FileView, path: str, how: str) -> str:
    if how == "read":
        return view.found(path) or NOWHERE
    if how == "read names":
        for name in (path, f"{path}.index"):
            place = view.found(name)
            if place is None or place != name:
                return NOWHERE if place is None and name != path else ALIAS + path
            if real.lexists(name):
                return path
        return path
    if how == "keep cache":
        return cache_place(view, path)
    if how == "keep snapshot":
        return snapshot_place(view, path)
    change: Change = "overwrite" if view.leads else "replace"
    if how != "write":  # TensorFlow makes the folders on its way
        os.makedirs(os.path.dirname(path), exist_ok=True)
    if how == "write names":
        names = (f"{path}.index", f"{path}{CHECKPOINT_DATA}")
        if view.leads:  # a folder that is there for a moment
            view.claim(f"{path}_temp", change, tree=True)
        return to_write(view, path, change, names=names)
    return to_write(view, path, change, tree=how == "write tree")


def _matching(files: Files, library: FileLibrary) -> Any:
    original = tf.io.matching_files

    @functools.wraps(original)
    def matching_files(pattern: Any, name: Any = None) -> Any:
        view = files.view()
        eager = tf.convert_to_tensor(pattern, tf.string)
        if (
            view is None
            or (view.is_plain and not view.changes.folders)
            or not hasattr(eager, "numpy")
        ):
            return original(pattern, name)
        patterns = [os.fsdecode(one) for one in tf.reshape(eager, [-1]).numpy()]
        found = {path for one in patterns for path in library.GetMatchingFiles(one)}
        return tf.constant(sorted(found), tf.string)

    return matching_files
