"""One ``matex run`` of a bench: what it reported, and nothing of it is left running."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from ci.jobs import environment

_TIMEOUT_S = 3600


def matex_run(
    *words: str, report: Path | None = None, **variables: str
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Summary and events of ``matex run`` with these *words* and environment *variables*.

    Args:
        report: directory of the report, which stays; a temporary one by default.

    Raises:
        SystemExit: it failed.
    """
    with contextlib.ExitStack() as stack:
        if report is None:
            aside = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-"))
            report = Path(aside) / "report"
        command = [sys.executable, "-m", "matex", "run", "--report", str(report), *words]
        child = subprocess.Popen(
            command, env=environment(TF_CPP_MIN_LOG_LEVEL="2", **variables),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        try:
            output, _ = child.communicate(timeout=_TIMEOUT_S)
        except BaseException:
            # Twice: the first lets the ranks save and leave, the second ends them.
            for _ in range(2):
                child.terminate()
            child.communicate()
            raise
        if child.returncode:
            raise SystemExit(f"{' '.join(command)} ended with {child.returncode}\n{output}")
        events = (report / "events.jsonl").read_text().splitlines()
        summary = json.loads((report / "summary.json").read_text())
    return summary, [json.loads(line) for line in events]
