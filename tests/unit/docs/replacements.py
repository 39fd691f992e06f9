"""Calls of :mod:`matex.replacing` in the code, and assignments that go past it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.unit.docs.pages import ROOT

MODULES = sorted(
    path for path in (ROOT / "matex").rglob("*.py") if path.name not in ("replacing.py",)
)


class Replacing(NamedTuple):
    """One call: its module, for how long, and the owner and name as the code writes them."""

    module: str
    lasts: str
    owner: str
    name: str


def _imported(tree: ast.Module) -> set[str]:
    imports = [each for each in ast.walk(tree) if isinstance(each, ast.Import | ast.ImportFrom)]
    return {
        (alias.asname or alias.name).partition(".")[0]
        for each in imports
        if not (isinstance(each, ast.ImportFrom) and (each.module or "").startswith("matex"))
        for alias in each.names
    }


def _root(expression: ast.expr) -> str | None:
    while isinstance(expression, ast.Attribute):
        expression = expression.value
    return expression.id if isinstance(expression, ast.Name) else None


def _set_in(node: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """Owners and names of the attributes that *node* assigns."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Attribute):
                yield target.value, target.attr
    elif isinstance(node, ast.Call) and ast.unparse(node.func) == "setattr":
        yield node.args[0], ast.unparse(node.args[1])


def past_the_helper(path: Path) -> list[str]:
    """Attributes of imported modules and classes that the module in *path* assigns itself."""
    tree = ast.parse(path.read_text())
    known = _imported(tree)
    return [
        f"{ast.unparse(owner)}.{name}"
        for node in ast.walk(tree)
        for owner, name in _set_in(node)
        if _root(owner) in known
    ]


def replacings(path: Path) -> Iterator[Replacing]:
    """Calls of the helper in the module in *path*."""
    module = str(path.relative_to(ROOT))
    for node in ast.walk(ast.parse(path.read_text())):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            continue
        if node.func.id == "replace_everywhere":
            yield Replacing(module, "the process", ast.literal_eval(node.args[0]), "*")
        elif node.func.id in ("replace", "replaced") and len(node.args) == 3:
            owner, name, _ = node.args
            literal = name.value if isinstance(name, ast.Constant) else "*"
            lasts = {"replace": "the process", "replaced": "a context"}[node.func.id]
            yield Replacing(module, lasts, ast.unparse(owner), str(literal))
