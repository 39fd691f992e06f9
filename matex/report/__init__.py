"""``matex report DIR``: what a run did, as one HTML page and pictures."""

from matex.report.page import write_report
from matex.report.reading import Run, read_run

__all__ = ["Run", "read_run", "write_report"]
