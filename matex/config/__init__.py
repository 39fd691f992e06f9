"""Options of a run: from ``matex run``, ``matex.init`` and the environment."""

from matex.config.config import Config, read_plan
from matex.config.durations import duration_s, duration_text
from matex.config.environment import (
    ARBITER,
    SEGMENTS,
    arbiter_setting,
    batch_job,
    segments_directory,
    visible_gpus,
)
from matex.config.options import LaunchOptions

__all__ = [
    "ARBITER",
    "SEGMENTS",
    "Config",
    "LaunchOptions",
    "arbiter_setting",
    "batch_job",
    "duration_s",
    "duration_text",
    "read_plan",
    "segments_directory",
    "visible_gpus",
]
