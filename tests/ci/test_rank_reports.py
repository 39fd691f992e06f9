"""The judge of the MPI tests: a missing rank is a failure, whatever the launcher says."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.testing import rank_reports as judge


def junit(folder: Path, rank: int, **outcomes: str) -> Path:
    """Write a JUnit file with one test case for each keyword, as pytest does."""
    inner = {"passed": "", "failed": "<failure/>", "error": "<error/>", "skipped": "<skipped/>"}
    cases = "".join(
        f'<testcase classname="t" name="{name}">{inner[outcome]}</testcase>'
        for name, outcome in outcomes.items()
    )
    path = folder / f"rank-{rank}.xml"
    path.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    return path


def test_agreeing_ranks_pass(tmp_path: Path) -> None:
    ranks = [judge.read(junit(tmp_path, r, a="passed", b="skipped")) for r in range(3)]
    assert judge.problems(ranks) == []
    assert judge.totals(ranks) == {"passed": 1, "skipped": 1}


def test_missing_rank_is_named(tmp_path: Path) -> None:
    ranks = [judge.read(junit(tmp_path, 0, a="passed")), judge.read(tmp_path / "rank-1.xml")]
    assert judge.problems(ranks) == ["rank 1 of 2 wrote no report: it died or hung"]


def test_no_rank_at_all() -> None:
    assert len(judge.problems([None, None])) == 2
    assert judge.totals([None, None]) == {}


def test_truncated_report_is_no_report(tmp_path: Path) -> None:
    path = junit(tmp_path, 0, a="passed")
    path.write_text(path.read_text()[:-5])
    assert judge.read(path) is None


@pytest.mark.parametrize("outcome", ["failed", "error"])
def test_one_rank_that_fails_makes_the_test_fail(tmp_path: Path, outcome: str) -> None:
    ranks = [
        judge.read(junit(tmp_path, 0, a="passed")),
        judge.read(junit(tmp_path, 1, a=outcome)),
    ]
    assert judge.problems(ranks) == ["rank 1 of 2 failed t::a"]
    assert judge.totals(ranks) == {"failed": 1}


def test_ranks_with_different_tests(tmp_path: Path) -> None:
    ranks = [
        judge.read(junit(tmp_path, 0, a="passed")),
        judge.read(junit(tmp_path, 1, b="passed")),
    ]
    assert judge.problems(ranks) == ["the ranks did not run the same tests"]


@pytest.mark.parametrize("outcomes", [{}, {"a": "skipped"}])
def test_a_run_without_a_test_is_a_problem(tmp_path: Path, outcomes: dict[str, str]) -> None:
    ranks = [judge.read(junit(tmp_path, r, **outcomes)) for r in range(2)]
    assert judge.problems(ranks) == ["no test ran: all were skipped, or none was collected"]


def test_error_in_teardown_counts(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.xml"
    case = '<testcase classname="t" name="a">{}</testcase>'
    path.write_text(f"<testsuite>{case.format('<error/>')}{case.format('')}</testsuite>")
    assert judge.totals([judge.read(path)]) == {"failed": 1}
