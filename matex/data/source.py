"""A data file that is open: named rows, ready for fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from matex.data.rows import RowRange, Rows
from matex.errors import InputError

__all__ = ["Data"]


class Data(Mapping[str, Rows]):
    """Rows by name, as ``data["x"]`` or ``data.x``; the result of :func:`matex.data.open`.

    Files with one set of samples have ``x`` and ``y``; those with two have ``x_train``,
    ``y_train``, ``x_test``, ``y_test``; others the names they were stored with.

    Attributes:
        path, format: path and format of the file.
        members: rows by name.
        notes: remarks by member or by topic; none by default.
        facts: names that belong to the data: ``columns``, ``classes``; none by default.
        close: function that closes the file; none by default.

    Example:
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     path = Path(directory) / "three.csv"
        ...     written = path.write_text("a,b,label\\n1,2,0\\n3,4,1\\n5,6,0\\n")
        ...     with data.open(path, label="label") as three:
        ...         train, test = three.split(1)
        ...         list(three), train.x.shape, test["x"][0].tolist()
        (['x', 'y'], (2, 2), [5.0, 6.0])
    """

    def __init__(
        self,
        path: Path,
        format: str,
        members: Mapping[str, Rows],
        *,
        notes: Mapping[str, str] | None = None,
        facts: Mapping[str, list[str]] | None = None,
        close: Callable[[], Any] | None = None,
    ) -> None:
        self.path = path
        self.format = format
        self.notes = dict(notes or {})
        self.facts = dict(facts or {})
        self._members = dict(members)
        self._close = close

    def __getitem__(self, name: str) -> Rows:
        try:
            return self._members[name]
        except KeyError:
            raise KeyError(
                f"{self.path} has {', '.join(self._members)}. Received: {name}"
            ) from None

    def __getattr__(self, name: str) -> Rows:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(error.args[0]) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def split(self, test_rows: int) -> tuple[Data, Data]:
        """Divide the rows of each member into two parts; nothing is read.

        Args:
            test_rows: number of rows of the second part, at least 1.

        Returns:
            All but the last *test_rows* rows, and those.

        Raises:
            InputError: members have different numbers of rows, or a part would be empty.
        """
        counts = {name: len(rows) for name, rows in self.items()}
        if len(set(counts.values())) != 1:
            raise InputError(
                f"a split wants members with the same number of rows. Received: {counts}"
            )
        total = next(iter(counts.values()))
        if not 0 < test_rows < total:
            raise InputError(
                f"the test part must leave rows on both sides of {total}. Received: {test_rows}"
            )
        return self._part(0, total - test_rows), self._part(total - test_rows, total)

    def _part(self, lo: int, hi: int) -> Data:
        members = {name: RowRange(rows, lo, hi) for name, rows in self.items()}
        return Data(self.path, self.format, members, notes=self.notes, facts=self.facts)

    def close(self) -> None:
        """Close the file; its rows and parts cannot be read afterwards."""
        if self._close is not None:
            self._close()
            self._close = None

    def __enter__(self) -> Data:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{self.format} {self.path}: {', '.join(self)}>"
