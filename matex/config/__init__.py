"""Options of a run: from ``matex run``, ``matex.init`` and the environment."""

from matex.config.config import Config, read_plan
from matex.config.durations import duration_s, duration_text
from matex.config.environment import (
    ARBITER,
    HASH_SEED,
    JOB,
    SEGMENTS,
    arbiter_setting,
    batch_job,
    environment_of_started,
    one_order_of_sets,
    segments_directory,
    starting_rank,
    visible_gpus,
)
from matex.config.options import LaunchOptions, ProgramOptions

__all__ = [
    "ARBITER",
    "HASH_SEED",
    "JOB",
    "SEGMENTS",
    "Config",
    "LaunchOptions",
    "ProgramOptions",
    "arbiter_setting",
    "batch_job",
    "duration_s",
    "duration_text",
    "environment_of_started",
    "one_order_of_sets",
    "read_plan",
    "segments_directory",
    "starting_rank",
    "visible_gpus",
]
