"""The packages of matex in their floors, as ``pyproject.toml`` has them and lint holds them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from docs.pictures.svg import Drawing

__all__ = ["draw", "floors"]

_PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
_FLOOR, _GAP, _LEFT, _WIDTH = 40, 12, 24, 712


def floors() -> list[list[str]]:
    """The layers of the contract about the packages, the topmost first."""
    for contract in _read()["tool"]["importlinter"]["contracts"]:
        if contract.get("containers") == ["matex"]:
            return [
                [package.strip(" ()") for package in layer.split("|")]
                for layer in contract["layers"]
            ]
    raise LookupError("pyproject.toml has no contract about the packages of matex")


def _read() -> dict[str, Any]:
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10
        import tomli as tomllib
    return dict(tomllib.loads(_PYPROJECT.read_text()))


def draw() -> Drawing:
    """Each floor imports from those below it alone; `ft` and `checkpoints` are the ground."""
    found = floors()
    rows = [_rows(packages) for packages in found]
    height = sum(len(r) * (_FLOOR + 6) + _GAP for r in rows) + 2 * _FLOOR + 60
    drawing = Drawing(760, height, "The packages of matex, each floor built on those below")
    y = 16.0
    for floor in rows:
        for row in floor:
            _boxes(drawing, y, row)
            y += _FLOOR + 6
        y += _GAP
    y += 4
    for number, (name, note) in enumerate(
        (("ft", "MPI: mpi4py and NumPy"), ("checkpoints", "files: h5py and NumPy"))
    ):
        width = (_WIDTH - _GAP) / 2
        x = _LEFT + number * (width + _GAP)
        drawing.box(x, y, width, _FLOOR + 10, edge="green")
        drawing.text(x + 12, y + 21, name, style="mono bold")
        drawing.text(x + 12, y + 38, note, size=12, style="soft")
    return drawing


def _rows(packages: list[str]) -> list[list[str]]:
    return [packages[i : i + 6] for i in range(0, len(packages), 6)]


def _boxes(drawing: Drawing, y: float, packages: list[str]) -> None:
    width = (_WIDTH - 8 * (len(packages) - 1)) / len(packages)
    for number, package in enumerate(packages):
        x = _LEFT + number * (width + 8)
        drawing.box(x, y, width, _FLOOR)
        drawing.text(x + width / 2, y + 25, package, anchor="middle", style="mono", size=12)
