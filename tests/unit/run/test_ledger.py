"""The counts of a run on one rank."""

from __future__ import annotations

from matex.records.summary import Totals
from matex.run.ledger import RunLedger


def test_the_parameters_are_those_of_the_last_model() -> None:
    totals = Totals(world_size_start=1)
    ledger = RunLedger(totals)

    def sizes() -> tuple[int, int]:
        return totals.parameters_start, totals.parameters_end

    ledger.begin_fit(50)
    assert sizes() == (50, 50)
    ledger.note_parameters(40)
    ledger.begin_fit(40)
    ledger.note_parameters(30)
    assert sizes() == (50, 30)
    ledger.begin_fit(70)
    assert sizes() == (70, 70)
    ledger.note_parameters(60)
    ledger.begin_fit(60)
    assert sizes() == (70, 60)
