"""``matex report DIR``: a run as one HTML page with pictures; and its trace."""

from matex.report.index import INDEX, write_index
from matex.report.page import write_report
from matex.report.reading import Run, read_run

__all__ = ["INDEX", "Run", "read_run", "write_index", "write_report"]
