"""Page of several runs side by side, self-contained except for the runs' own pages."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from matex.records.events import write_text
from matex.report.comparison import side_by_side
from matex.report.html import Picture, document, figure, table
from matex.report.page import PAGE
from matex.report.plots import compared
from matex.report.reading import Run

__all__ = ["INDEX", "index", "names_of", "write_index"]

#: File name of the page.
INDEX = "runs.html"

_CAPTIONS = {"losses.png": "Loss of each epoch", "throughputs.png": "Throughput"}


def write_index(runs: Sequence[Run], path: Path) -> Path:
    """Write the page of *runs*, whose own pages exist already; return its path.

    Raises:
        InputError: matplotlib is missing.
    """
    names = names_of([run.directory for run in runs])
    above = path.resolve().parent
    places = [os.path.relpath(run.directory.resolve() / PAGE, above) for run in runs]
    links = [quote(os.fsencode(place)) for place in places]  # a name may have a # or a %
    pictures = compared(dict(zip(names, runs, strict=True)))
    write_text(path, index(runs, names, links, pictures))
    return path


def index(
    runs: Sequence[Run], names: Sequence[str], links: Sequence[str], images: Mapping[str, Picture]
) -> str:
    """The HTML text. Pure.

    Args:
        names: name of each run.
        links: address of each run's page, relative to this one.
        images: pictures to embed.
    """
    rows = side_by_side(runs)
    parts = [
        f"<h1>{len(runs)} runs</h1>",
        table(["", *names], rows, links=["", *links]),
        *(figure(_CAPTIONS[name], picture) for name, picture in images.items()),
    ]
    return document(f"{len(runs)} runs", parts)


def names_of(directories: Sequence[Path]) -> list[str]:
    """Shortest distinct endings of the paths of *directories*. Pure but for links."""
    parts = [directory.resolve().parts for directory in directories]
    longest = max(map(len, parts))
    for length in range(1, longest):
        names = ["/".join(path[-length:]) for path in parts]
        if len(set(names)) == len(set(parts)):
            return names
    return ["/".join(path) for path in parts]
