"""The batches of a fit that goes on from a checkpoint."""

from __future__ import annotations

from matex.fitting.fit_batches import BATCHES, FitBatches


def test_equal_batches_have_no_change() -> None:
    batches = FitBatches(64, "keras")
    stored = FitBatches.stored_in({BATCHES: batches.packed()})
    assert stored == batches
    assert batches.after(stored).changed == ()


def test_a_change_stays_known_in_later_checkpoints() -> None:
    first = FitBatches(64, "keras")
    second = FitBatches(32, "keras").after(first)
    assert second.changed == ("batches of 32 rows after a checkpoint of 64",)
    stored = FitBatches.stored_in({BATCHES: second.packed()})
    assert FitBatches(32, "stored").after(stored).changed == (
        "batches of 32 rows after a checkpoint of 64",
        "the order 'stored' after a checkpoint of 'keras'",
    )


def test_what_a_checkpoint_does_not_know_has_not_changed() -> None:
    assert FitBatches(64, "keras").after(FitBatches.stored_in({})).changed == ()
    assert FitBatches(64, "stream").after(FitBatches(None, "stream")).changed == ()
