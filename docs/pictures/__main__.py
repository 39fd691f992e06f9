"""``python -m docs.pictures``: draw all pictures anew; ``--check`` only compares."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

from docs.pictures import flow, flows, packages, recovery, run, strategies
from docs.pictures.svg import Drawing

FOLDER = Path(__file__).parent
PICTURES: dict[str, Callable[[], Drawing]] = {
    "run": lambda: run.draw(json.loads(run.DATA.read_text())),
    "recovery": recovery.draw,
    "packages": packages.draw,
    "strategies": strategies.draw,
    **{name: lambda f=found: flow.draw(*f) for name, found in flows.FLOWS.items()},  # type: ignore[misc]
}


def stale() -> list[str]:
    """The pictures that differ from what the code draws."""
    return [
        name
        for name, draw in PICTURES.items()
        if not (path := FOLDER / f"{name}.svg").exists() or path.read_text() != draw().written()
    ]


def main() -> int:
    names = stale()
    if "--check" in sys.argv:
        print(
            *(f"{name}.svg is not what the code draws: make pictures" for name in names), sep="\n"
        )
        return int(bool(names))
    for name in names:
        (FOLDER / f"{name}.svg").write_text(PICTURES[name]().written())
        print(f"docs/pictures/{name}.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
