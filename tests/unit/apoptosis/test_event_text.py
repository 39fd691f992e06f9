"""The lines and the table of an event for the user."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from matex.apoptosis.event_text import kept_whole, left_alone, line_of, no_event, table_of
from matex.apoptosis.outcome import Change, Outcome


def change(layer: str, before: int = 64, after: int = 30, *, kept: bool = True) -> Change:
    return Change(layer, before, after, cost=0.0123, loss=0.5, kept=kept, part=1.0)


def outcome(*changes: Change) -> Outcome:
    return Outcome(
        list(changes), tuple(one.units_from for one in changes),
        loss_before=0.5, loss_after=0.51, loss_allowed=0.52, at_risk=0.031,
        parameters=(23_587_712, 21_000_000), flops=(2.0, 1.0), left_alone={}, refused=(),
    )  # fmt: skip


def test_the_line_of_a_large_network_is_short() -> None:
    """A residual network of 200 groups with the long names that Keras gives their layers."""
    groups = [
        change("+".join(f"conv{n}_block{b}_3_conv" for b in range(8)), kept=n % 2 == 0)
        for n in range(200)
    ]
    assert line_of(outcome(*groups)) == (
        "3,400 of 12,800 units gone, in 100 of 200 groups; parameters 23,587,712 -> 21,000,000 "
        "(-11.0%); held-out loss 0.5000 -> 0.5100 (at most 0.5200), at most 3.1% predicted "
        "otherwise"
    )
    assert line_of(outcome(*groups)._replace(has_loss=False)).endswith(
        "; no held-out loss limited it (the data have no y, or the model no loss of it), at most "
        "3.1% predicted otherwise"
    )


def test_where_nothing_can_go_the_line_says_so() -> None:
    assert outcome().totals == "no unit removed"
    assert outcome(change("a", kept=False)).totals == "0 of 64 units gone, in 0 of 1 group"
    assert table_of([], has_loss=True) == []


def test_the_table_has_a_line_for_each_group() -> None:
    long = "+".join(f"conv{n}_block1_3_conv" for n in range(12))
    name = "conv0_block1_3_conv+(11 more)"
    changes = [change("a"), change(long, 256, 9, kept=False)]
    assert table_of(changes, has_loss=True) == [
        f"{'group':<29}     units   cost  held-out loss",
        f"{'a':<29}  64 -> 30  0.012         0.5000",
        f"{name:<29}       256  0.012         0.5000  stays",
    ]
    assert table_of(changes, has_loss=False)[1].endswith("0.012           none")


def test_a_group_that_stays_is_told_of_once() -> None:
    told: set[str] = set()
    names, line = kept_whole([change("a"), change("b", kept=False)], told)
    assert (names, line) == (
        ["b"], "b: without some of them the held-out loss would rise too far"
    )  # fmt: skip
    told.update(names)
    assert kept_whole([change("b", kept=False)], told) == ([], "")
    many = [change(letter, kept=False) for letter in "bcdefgh"]
    assert kept_whole(many, told)[1].startswith("c, d, e, f and 2 more: ")


@dataclass(frozen=True)
class Reasons:
    """Layers with their reasons, and the lines about them."""

    reasons: dict[str, str]
    lines: list[str]


@pytest.mark.parametrize(
    "case",
    [
        Reasons({}, []),
        Reasons({"a": "excluded"}, ["a (10.0% of the parameters), excluded"]),
        Reasons(
            {"a": "excluded", "b": "an output", "c": "excluded"},
            [
                "a and c (30.0% of the parameters), excluded",
                "b (0.0% of the parameters), an output",
            ],
        ),
    ],
)
def test_layers_that_stay_for_one_reason_share_a_line(case: Reasons) -> None:
    assert left_alone(case.reasons, {"a": 10, "c": 20}, 100) == case.lines


def test_a_fit_without_room_for_an_event_is_told_of() -> None:
    """The last event comes two epochs before the end, so that short fits have none."""
    assert no_event(2, 1, begun=0, epochs=3) == (
        "apoptosis holds no event in this fit, which ends with epoch 3: events may come from "
        "epoch 2 on, but not after epoch 1; more epochs, or "
        "matex.Apoptosis(first_epoch=, last_epoch=), make room for them"
    )
    assert "but not in its last epochs;" in no_event(1, -1, begun=0, epochs=1)
    assert no_event(9, 12, begun=0, epochs=5) and no_event(2, 4, begun=4, epochs=6)
    assert not no_event(2, 2, begun=0, epochs=4) and not no_event(1, 1, begun=0, epochs=1)
