"""The four routes that ``docs/design/architecture.md`` describes, drawn."""

from __future__ import annotations

from docs.pictures.flow import Stage

__all__ = ["FLOWS"]

FLOWS: dict[str, tuple[str, tuple[Stage, ...]]] = {
    "gradient": (
        "A gradient, from Keras's train_step to the update",
        (
            Stage(
                "Keras asks for a step",
                ("matex/keras_hooks/attach.py", "matex/process/keras_adapter.py"),
            ),
            Stage(
                "the engine makes the step",
                (
                    "matex/fitting/epoch_iterator.py",
                    "matex/steps/engine.py",
                    "matex/steps/executors/single_update.py",
                ),
            ),
            Stage(
                "which rows of the global batch are mine?",
                ("matex/steps/row_division.py", "matex/partition/spans.py"),
            ),
            Stage(
                "those rows, read ahead", ("matex/sources/interface.py", "matex/data/prefetch.py")
            ),
            Stage(
                "forward and backward; the optimizer's apply is recorded, not run",
                ("matex/steps/step_computation.py", "matex/steps/recorder.py"),
            ),
            Stage("all sums of the step in one vector", ("matex/exchange/layout.py",)),
            Stage("fence: every side effect so far has happened", kind="fence"),
            Stage(
                "one allreduce of the vector, out of place",
                ("matex/exchange/native.py", "matex/exchange/exchange.cc"),
                "all",
            ),
            Stage("fence: nothing below runs unless the exchange succeeded", kind="fence"),
            Stage(
                "the recorded update with the averaged gradients",
                ("matex/steps/step_computation.py", "matex/steps/recorder.py"),
            ),
            Stage(
                "counts, events, checkpoints, replica checks",
                ("matex/fitting/listeners.py", "matex/run/ledger.py"),
            ),
        ),
    ),
    "dead_rank": (
        "The dead rank's rows",
        (
            Stage(
                "the exchange returns an MPI error: PeerFailure",
                ("matex/exchange/native.py", "ft/operations.py"),
            ),
            Stage("revoke, shrink, agree", ("ft/repair.py",), "all"),
            Stage("may this part go on?", ("ft/quorum.py", "ft/split_decision.py"), "all"),
            Stage(
                "who is a member now, who completed which operation",
                ("ft/view_change.py", "ft/views.py"),
                "all",
            ),
            Stage(
                "somebody has the result: it is handed over, done", ("ft/operation_log.py",), "all"
            ),
            Stage(
                "else: the dead rank's rows are divided among the living",
                ("matex/steps/executors/recovery.py", "matex/partition/spans.py"),
            ),
            Stage(
                "each computes the missing rows and adds them to its own sum",
                ("matex/steps/executors/recovery.py", "matex/steps/step_computation.py"),
            ),
            Stage(
                "the same exchange again, through mpi4py",
                ("matex/exchange/graph_exchange.py", "ft/communicator.py"),
                "all",
            ),
            Stage("the update, once, with equal bits on all", ("matex/steps/step_computation.py",)),
        ),
    ),
    "checkpoint": (
        "A checkpoint",
        (
            Stage(
                "is one due? from cost, risk and options",
                ("matex/checkpointing/saver.py", "matex/checkpointing/save_interval.py"),
            ),
            Stage(
                "the request travels in the header of the next exchange",
                ("matex/steps/contribution_header.py", "matex/exchange/layout.py"),
                "all",
            ),
            Stage(
                "between two steps: references to all variables",
                (
                    "matex/fitting/fit_state/checkpoint_listener.py",
                    "matex/fitting/fit_state/fit_snapshots.py",
                ),
            ),
            Stage("whose turn is it to write?", ("matex/checkpointing/writer_rotation.py",)),
            Stage(
                "in a thread: copy, encode, checksum",
                ("checkpoints/background.py", "checkpoints/writer.py"),
            ),
            Stage(
                "write aside, sync, look at the fence, rename",
                ("checkpoints/store.py", "checkpoints/files.py", "checkpoints/fence.py"),
            ),
            Stage(
                "remove what is not kept; event checkpoint",
                ("checkpoints/retention.py", "matex/checkpointing/tier.py"),
            ),
        ),
    ),
    "apoptosis": (
        "An apoptosis event",
        (
            Stage(
                "an epoch ends; is an event due?",
                ("matex/apoptosis/fit_apoptosis.py", "matex/apoptosis/schedule.py"),
            ),
            Stage(
                "held-out loss now, and what this event may cost",
                ("matex/apoptosis/held_out_loss.py", "matex/apoptosis/allowance.py"),
                "all",
            ),
            Stage(
                "groups of units that must be removed together",
                ("matex/apoptosis/graph/trace.py", "matex/apoptosis/graph/network.py"),
            ),
            Stage(
                "how well can the others replace each unit?",
                ("matex/apoptosis/criteria/measure.py", "matex/apoptosis/criteria/table.py"),
                "all",
            ),
            Stage(
                "try removals until the budget is spent",
                ("matex/apoptosis/search.py", "matex/apoptosis/event.py"),
                "all",
            ),
            Stage(
                "cut layers, weights and optimizer slots",
                ("matex/apoptosis/cut/rebuild.py", "matex/keras_hooks/variable_resizing.py"),
            ),
            Stage("the smaller model must compute the same", ("matex/apoptosis/cut/proof.py",)),
            Stage(
                "equal on all ranks; the step is traced anew",
                ("matex/apoptosis/peers.py", "matex/process/keras_adapter.py"),
                "all",
            ),
        ),
    ),
}
