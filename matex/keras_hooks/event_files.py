"""TensorBoard event files, one record at a time, each with its own time.

``tf.summary`` would give every point the time at which it is written.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

__all__ = ["EventFile"]

_VERSION = "brain.Event:2"  # the records' own; TensorBoard forgets lost steps from it on


class EventFile:
    """A new file at *path*, whose directory is created if missing.

    Raises:
        OSError, tf.errors.OpError: it cannot be written; so do all methods.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._writer = tf.io.TFRecordWriter(str(self._path))
        try:
            self._write(tf.compat.v1.Event(wall_time=time.time(), file_version=_VERSION))
            self._writer.flush()
        except tf.errors.OpError:
            self._path.unlink(missing_ok=True)
            raise

    @property
    def is_removed(self) -> bool:
        """Whether the file has been removed."""
        return not self._path.exists()

    def forget_from(self, time_s: float, step: int) -> None:
        """Let points from *step* on that were written before be forgotten.

        Args:
            time_s: Unix time.
        """
        started = tf.compat.v1.SessionLog(status=tf.compat.v1.SessionLog.START)
        self._write(tf.compat.v1.Event(wall_time=time_s, step=step, session_log=started))

    def add(self, time_s: float, step: int, values: Mapping[str, float], text: str) -> None:
        """Add points of curves, and a nonempty text under the tag ``log``.

        Args:
            time_s: Unix time.
            values: tag → value.
        """
        value = tf.compat.v1.Summary.Value
        points = [value(tag=tag, simple_value=number) for tag, number in values.items()]
        if text:
            plugin = tf.compat.v1.SummaryMetadata.PluginData(plugin_name="text")
            points.append(
                value(
                    tag="log",
                    metadata=tf.compat.v1.SummaryMetadata(plugin_data=plugin),
                    tensor=tf.make_tensor_proto([text.encode()], dtype=tf.string),
                )
            )
        summary = tf.compat.v1.Summary(value=points)
        self._write(tf.compat.v1.Event(wall_time=time_s, step=step, summary=summary))

    def flush(self) -> None:
        """Hand all that was added to the operating system."""
        self._writer.flush()

    def close(self) -> None:
        """End the file."""
        self._writer.close()

    def _write(self, event: Any) -> None:
        self._writer.write(event.SerializeToString())
