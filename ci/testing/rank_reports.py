"""Judge an MPI test run by what every rank wrote: mpiexec's exit status proves nothing.

mpiexec ends with 0 when every rank was killed. So each rank writes a JUnit file when its pytest
ends, and only N files that agree, with no failure in them, make a pass.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Report:
    """The outcome of one pytest: test name -> "passed", "failed" or "skipped"."""

    outcomes: dict[str, str]

    def names(self, outcome: str) -> list[str]:
        return [name for name, value in self.outcomes.items() if value == outcome]


def read(path: Path) -> Report | None:
    """Read a JUnit file; None when it is missing or was not written to its end."""
    try:
        root = ET.parse(path).getroot()
    except (FileNotFoundError, ET.ParseError):
        return None
    outcomes: dict[str, str] = {}
    for case in root.iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        # A test whose teardown fails has two entries: the worse one counts.
        if outcomes.get(name) != "failed":
            outcomes[name] = _outcome(case)
    return Report(outcomes)


def problems(ranks: list[Report | None]) -> list[str]:
    """Return what is wrong with the reports of ranks 0..N-1, one line each; none if all is well."""
    size = len(ranks)
    found = []
    for rank, report in enumerate(ranks):
        if report is None:
            found.append(f"rank {rank} of {size} wrote no report: it died or hung")
        elif failed := report.names("failed"):
            found.append(f"rank {rank} of {size} failed {', '.join(failed)}")
    present = [report for report in ranks if report is not None]
    if any(set(report.outcomes) != set(present[0].outcomes) for report in present):
        found.append("the ranks did not run the same tests")
    if not all(report.names("passed") or report.names("failed") for report in present):
        found.append("no test ran: all were skipped, or none was collected")
    return found


def totals(ranks: list[Report | None]) -> Counter[str]:
    """Count each test once, by its worst outcome on any rank."""
    worst: dict[str, str] = {}
    order = ["skipped", "passed", "failed"]
    for report in ranks:
        for name, outcome in (report.outcomes if report else {}).items():
            worst[name] = max(worst.get(name, outcome), outcome, key=order.index)
    return Counter(worst.values())


def _outcome(case: ET.Element) -> str:
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    return "skipped" if case.find("skipped") is not None else "passed"
