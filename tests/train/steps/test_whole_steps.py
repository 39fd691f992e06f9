"""Steps that are no sum over rows, and test steps of scripts: the numbers of plain Keras.

One launch runs all kinds, because starting TensorFlow takes longer than any of them.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import slow
from tests.train.runs import faults, matex_run
from tests.train.whole_runs.test_script_kinds import Outcomes, flat, in_plain_keras, outcomes

pytestmark = pytest.mark.timeout(400)

# What the line on the terminal says of them where there are ranks to share the work.
WHOLE = {
    "noise-in-a-loop": "draws random numbers without a SeedGenerator, by RandomStandardNormal",
    "noise-of-a-generator": "changes a variable that neither the model nor its optimizer knows",
    "noise-of-numpy": "without a SeedGenerator, from the generator of NumPy",
    "noise-of-numpy-eagerly": "in two computations from the same rows",
    "noise-of-tensorflow-eagerly": "in two computations from the same rows",
    "noise-of-ones-own": "the ranks computed other gradients from the same batch",
    "loss-with-a-mask": "the gradient of sequential/embedding/embeddings is",
    "loss-with-a-mask-and-dropout": "the gradient of sequential/embedding/embeddings is",
    "loss-with-a-mask-and-batch-norm": "the gradient of sequential/embedding/embeddings is",
    "contrastive": "the gradient of sequential/dense/kernel is",
    "contrastive-with-dropout": "the gradient of sequential/dense/kernel is",
    "contrastive-batches": "the gradient of sequential/dense/kernel is",
    "balanced-by-counts": "the gradient of sequential/dense/kernel is",
    "balanced-by-unique-labels": "the gradient of sequential/dense/kernel is",
    "product-over-the-batch": "the gradient of sequential/dense/kernel is",
    "own-normalization": "the gradient of sequential/dense/kernel is",
    "fields-for-all-rows": "random_elastic_transform draws a field for each row",
    "shape-of-the-batch": "train_step cannot be traced: TypeError",
    "reshaped-by-the-batch-size": "train_step fails on a part of a batch: InvalidArgumentError",
    "asserted-batch-size": "train_step fails on a part of a batch: InvalidArgumentError",
    "state-of-rows": "train_step fails on a part of a batch: InvalidArgumentError",
    "batches-of-two-sizes": "different numbers of rows, in shapes (20, 6), (12, 6), (12,)",
    "batches-of-two-sizes-late": "different numbers of rows, in shapes (13, 6), (12, 6), (12,)",
    "stopped-within-an-epoch": "the gradient of sequential/dense/kernel is",
    "own-counter": "changes a variable that neither the model nor its optimizer knows",
    "value-that-is-no-mean": "the value of norm is",
    "metric-that-is-no-sum": "the increment of largest/value is",
    "adversarial-by-norm": "for 472 rows at once and for 8 times 59 of them added up",
    "codebook": "the change of sequential/codebook/variable is",
    "whole-of-shuffled-rows": "the gradient of sequential/dense/kernel is",
    "texts-filled-up": "in rows of other lengths",
    "ragged-filled-up": "the gradient of filled/conv1d/kernel is",
    "softmax-over-rows": "the gradient of sequential/dense/kernel is",
    "spectrogram-of-the-loudest": "is made by Maximum of a sum over rows",
    "predicted-by-the-batch": "predict_step combines rows of a batch, by Cumsum",
    "test-step-of-noise": "test_step draws random numbers",
    "noise-where-keras-layers-predict": "predict_step draws random numbers, or changes variables",
    "noise-where-own-layers-predict": "test_step draws random numbers",
    "test-step-run-eagerly": "test_step runs eagerly",
    "values-made-of-metrics": "which is made of a metric and not its result",
    "values-made-of-metrics-eagerly": "which is no metric's result and may be made of one",
    "losses-by-output-of-whole-batches": "the increment of largest/value is",
    "looks-at-weights-afterwards": "after the update",
    "functions-of-a-whole-step": "the gradient of inner/dense/kernel is",
    "scale-that-overflows": "the gradient of grows_with_rows/",
    "made-in-a-scope": "the model was made in the scope of a MirroredStrategy",
}
SHARED = [
    "added-up-with-dropout", "noise-of-tensorflow", "noise-of-layers", "noise-of-keras",
    "test-step-of-scalars", "test-step-of-scalars-and-metrics",
    "test-step-of-batches", "ends-at-a-nan", "few-steps", "losses-by-output",
    "stopped-before-another-size", "classes-that-are-ignored", "functions-of-a-shared-step",
    "variables-in-logs", "other-metrics", "labels-made-in-the-step", "labels-made-eagerly",
    "adversarial-by-sign", "labels-made-batch-by-batch", "call-that-does-not-fit",
    "dropout-where-nothing-trains",
]  # fmt: skip
KINDS = [*WHOLE, *SHARED]
KILLED = [
    "contrastive", "test-step-of-scalars-and-metrics", "loss-with-a-mask", "noise-of-tensorflow",
    "noise-of-layers", "noise-of-keras", "functions-of-a-shared-step", "functions-of-a-whole-step",
    "variables-in-logs", "looks-at-weights-afterwards", "other-metrics",
    "dropout-where-nothing-trains",
]  # fmt: skip
# Metrics whose states do not add up over rows; the text is that of their states over batches.
MEASURED = {
    "metrics-of-batches": "",
    "metrics-of-batches-unbuilt": "",
    "metrics-of-keras-by-batches": "",
    "metrics-of-batches-eagerly": "test_step runs eagerly",
    "largest-error": "state is made by Maximum of what it was",
    "largest-error-of-later-batches": "state is made by Maximum of what it was",
}
ONE_RANK = [
    "losses-by-output", "test-step-of-batches", "functions-of-a-shared-step",
    "dropout-where-nothing-trains",
]  # fmt: skip


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    return in_plain_keras(tmp_path_factory.mktemp("alone"), KINDS)


def assert_same(mine: Outcomes, alone: Outcomes) -> None:
    for kind, outcome in mine.items():
        if kind != "noise-of-ones-own":  # which ranks draw otherwise
            wanted = pytest.approx(list(flat(alone[kind]["numbers"])), 1e-5, 1e-7, nan_ok=True)
            assert list(flat(outcome["numbers"])) == wanted, kind


@pytest.mark.parametrize("ranks", slow.all_but([], [1, 2, 3]))
def test_they_give_the_result_of_one_process(ranks: int, alone: Outcomes, tmp_path: Path) -> None:
    written = tmp_path / "outcomes"
    written.mkdir()
    outcome = matex_run(tmp_path, "train_kinds.py", written, *KINDS, ranks=ranks, timeout_s=300)
    assert outcome.status == 0, outcome.stderr
    mine = outcomes(written)
    assert mine.keys() == set(KINDS)
    assert_same(mine, alone)
    assert outcome.summary["samples_used"] == outcome.summary["samples_expected"]
    said = [line for line in outcome.stdout.splitlines() if line.startswith("matex: ")]
    if ranks == 1:
        assert said == []
        return
    for kind, text in WHOLE.items():
        assert any(text in line for line in said), (kind, said)
    assert not any("loop of one's own" in line for line in said)
    assert not any("changes variables other than" in line for line in said)
    but_for_figures = [re.sub(r"-?\d[\d.]*(e[-+]?\d+)?", "#", line) for line in said]
    assert len(set(but_for_figures)) == len(said), said
    assert "of the" in said[0]
    assert "cores of its host" in said[0] or "no faster" in said[0]
    retraced = [line for line in outcome.stderr.splitlines() if "retracing" in line]
    assert all("TensorFlowTrainer.make_predict" in line for line in retraced)  # as in plain Keras


def test_so_they_do_when_a_rank_dies(tmp_path: Path) -> None:
    (tmp_path / "alone").mkdir()
    alone = in_plain_keras(tmp_path / "alone", KILLED)
    plan = faults(
        "kill:rank=0,step=4",
        "kill:rank=1,step=20,at=validation",
        "kill:rank=2,step=53,at=in-exchange",  # the fifth of the noise of TensorFlow
    )
    written = tmp_path / "outcomes"
    written.mkdir()
    outcome = matex_run(tmp_path, "train_kinds.py", written, *KILLED, ranks=4, options=plan)
    assert outcome.status == 0, outcome.stderr
    assert len(outcome.summary["faults"]) == 3
    mine = outcomes(written)
    assert mine.keys() == set(KILLED)
    assert_same(mine, alone)


def test_one_rank_evaluates_as_it_validates(tmp_path: Path) -> None:
    """It makes Keras's own test steps, for the same data in other structures, too."""
    (tmp_path / "alone").mkdir()
    alone = in_plain_keras(tmp_path / "alone", ONE_RANK)
    written = tmp_path / "outcomes"
    written.mkdir()
    outcome = matex_run(tmp_path, "train_kinds.py", written, *ONE_RANK, ranks=1)
    assert outcome.status == 0, outcome.stderr
    assert_same(outcomes(written), alone)


@pytest.mark.parametrize("ranks", slow.all_but([3], [1, 2, 3]))
def test_metrics_of_whole_batches_are_those_of_one_process(ranks: int, tmp_path: Path) -> None:
    (tmp_path / "alone").mkdir()
    alone = in_plain_keras(tmp_path / "alone", MEASURED)
    written = tmp_path / "outcomes"
    written.mkdir()
    outcome = matex_run(tmp_path, "train_kinds.py", written, *MEASURED, ranks=ranks)
    assert outcome.status == 0, outcome.stderr
    mine = outcomes(written)
    assert mine.keys() == set(MEASURED)
    assert_same(mine, alone)
    said = [line for line in outcome.stdout.splitlines() if "evaluates all of the data" in line]
    assert not any("Error" in line for line in said)
    for text in filter(None, MEASURED.values()):
        assert ranks == 1 or any(text in line for line in said), (text, said)
