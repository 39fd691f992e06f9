"""Files of a report that each rank has of its own, with its number in the name."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["files_of_ranks"]

_STEM = re.compile(r"rank-(\d{4,})", re.ASCII)


def files_of_ranks(report: Path, suffix: str) -> dict[int, Path]:
    """The file of each original rank in *report*, by its number; other names are left out.

    Args:
        suffix: end of the names, such as ``.log``.
    """
    named = ((_STEM.fullmatch(path.stem), path) for path in sorted(report.glob(f"rank-*{suffix}")))
    return {int(found[1]): path for found, path in named if found is not None}
