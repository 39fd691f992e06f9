"""Words for the numbers of a fit beside those of plain Keras."""

from __future__ import annotations

import pytest

from matex.records.equality import Circumstances, differences, in_words, numbers_of


@pytest.mark.parametrize("order", ["stored", "keras", "stream"])
def test_a_fit_in_an_order_of_keras_comes_to_its_numbers(order: str) -> None:
    fit = Circumstances(parts=3, order=order)
    assert differences(fit) == []
    assert in_words([]) == "of plain Keras"


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"order": "anew"}, "the order of samples"),
        ({"order": "ring"}, "the order of samples (--shuffle ring)"),
        (
            {"changed": ["batches of 9 rows after a checkpoint of 8"], "parts": 1},
            "batches of 9 rows after a checkpoint of 8",
        ),
        ({"strategy": "gossip"}, "strategy gossip"),
        ({"batch_per_rank": True}, "a batch that grows with the ranks"),
        ({"lr_scaling": "sqrt"}, "a learning rate that grows with the ranks (sqrt)"),
        ({"compression": "bf16"}, "gradients in bf16"),
        ({"apoptosis": "natural"}, "apoptosis natural"),
        (
            {"normalized_alone": 1},
            "BatchNormalization by parts of the batch (1 layer; --sync-batchnorm)",
        ),
        (
            {"normalized_alone": 2},
            "BatchNormalization by parts of the batch (2 layers; --sync-batchnorm)",
        ),
        ({"shifted": ["shuffle", "categorical"]}, "random numbers of categorical, shuffle"),
        ({"summed": ["words", "tags"]}, "added up sparse gradients (tags, words)"),
        ({"summed": ["words"], "parts": 1}, "added up sparse gradients (words)"),
        (
            {"copied": ["AnOptimizer"]},
            "AnOptimizer, whose copies of weights plain Keras makes anew in each step",
        ),
        (
            {"in_float16": True},
            "float16, in which a whole batch may overflow where its parts do not",
        ),
        (
            {"mapped": ["noise", "flip"]},
            "random numbers of noise, flip, in the model and in tf.data's maps from one seed",
        ),
        (
            {"wandering": 2},
            "biases before BatchNormalization, which follow rounding (2 layers; use_bias=False)",
        ),
        ({"dropped": True}, "accumulated gradients, which plain Keras drops where data end"),
    ],
)
def test_each_circumstance_is_named(facts: dict, words: str) -> None:
    fit = Circumstances(**{"parts": 2, "order": "stored", **facts})
    assert differences(fit) == [words]
    assert in_words(differences(fit)) == f"of plain Keras but for: {words}"


def test_no_option_is_advised_that_the_strategy_refuses() -> None:
    fit = Circumstances(parts=2, order="stored", strategy="gossip", normalized_alone=1)
    assert differences(fit)[1] == "BatchNormalization by parts of the batch (1 layer)"


def test_what_follows_from_several_ranks_is_not_named_on_one() -> None:
    fit = Circumstances(
        parts=1,
        order="anew",
        strategy="gossip",
        batch_per_rank=True,
        lr_scaling="linear",
        compression="fp16",
        normalized_alone=3,
        shifted=["shuffle"],
    )
    assert differences(fit) == ["the order of samples"]


def test_a_run_names_what_any_of_its_fits_did_otherwise_once() -> None:
    events = [
        {"event": "start"},
        {"event": "fit", "fit": 0, "step": 0, "but_for": []},
        {"event": "fit", "fit": 1, "step": 9, "but_for": ["the order of samples"]},
        {"event": "loop", "but_for": ["random numbers of shuffle", "the order of samples"]},
    ]
    told = "of plain Keras but for: the order of samples, random numbers of shuffle"
    assert numbers_of(events) == told
    assert numbers_of(events[:2]) == "of plain Keras"
    assert numbers_of(events[:1]) is None


def test_samples_that_were_left_out_are_named() -> None:
    events = [{"event": "fit", "fit": 0, "step": 0, "but_for": ["the order of samples"]}]
    told = "of plain Keras but for: the order of samples, samples left out (--nonfinite skip)"
    assert numbers_of(events, skipped=True) == told
    assert numbers_of([], skipped=True) is None


def test_a_fit_that_is_computed_whole_from_its_first_step_on_is_named_as_such() -> None:
    parts = "BatchNormalization by parts of the batch (1 layer; --sync-batchnorm)"
    shared = {"event": "fit", "fit": 0, "step": 7, "but_for": [parts]}
    whole = {"event": "fit", "fit": 0, "step": 7, "but_for": [], "whole": "it draws"}
    assert numbers_of([shared, whole]) == "of plain Keras"
    assert numbers_of([shared, {**whole, "step": 8}]) == f"of plain Keras but for: {parts}"
