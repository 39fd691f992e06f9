"""Attaching to Keras: the only package that touches its private names."""

from matex.keras_hooks.attach import TrainerHooks, attach, untested, verify
from matex.keras_hooks.data import as_data, dataset_of, is_stream
from matex.keras_hooks.models import (
    build,
    changing_variables,
    first_epoch,
    follow_backup,
    is_precise,
    mean_losses_only,
    refuse,
    refuse_to_cut,
    seed_variables,
    start_at,
)
from matex.keras_hooks.optimizers import (
    learning_rate_variable,
    rate_times,
    recording,
    scales_loss,
    set_learning_rate,
    state_of,
    updates_made,
    updating,
)

__all__ = [
    "TrainerHooks",
    "as_data",
    "attach",
    "build",
    "changing_variables",
    "dataset_of",
    "first_epoch",
    "follow_backup",
    "is_precise",
    "is_stream",
    "learning_rate_variable",
    "mean_losses_only",
    "rate_times",
    "recording",
    "refuse",
    "refuse_to_cut",
    "scales_loss",
    "seed_variables",
    "set_learning_rate",
    "start_at",
    "state_of",
    "untested",
    "updates_made",
    "updating",
    "verify",
]
