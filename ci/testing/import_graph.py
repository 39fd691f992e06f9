"""The imports of packages as a graph: which module names which, wherever the statement stands."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from pathlib import Path

__all__ = ["circles", "read"]


def read(root: Path, packages: Iterable[str], others: Iterable[str] = ()) -> dict[str, set[str]]:
    """The modules of *packages* under *root*, and what each of them imports.

    Args:
        others: names of packages from elsewhere whose imports count, under that name alone.
    """
    paths = {
        _name(path.relative_to(root)): path
        for package in packages
        for path in sorted((root / package).rglob("*.py"))
    }
    known = set(others)
    return {
        name: {
            target
            for imported in _imported(name, path)
            if (target := _resolved(imported, paths, known)) not in (None, name)
        }
        for name, path in paths.items()
    }


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The groups of two or more nodes that reach each other, each in alphabetical order."""
    reached = {node: _reached(graph, node) for node in graph}
    groups = {
        frozenset(other for other in reached[node] if node in reached[other])
        for node in graph
        if node in reached[node]
    }
    return sorted(sorted(group) for group in groups)


def _reached(graph: Mapping[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    ahead = [start]
    while ahead:
        new = graph.get(ahead.pop(), set()) - found
        found |= new
        ahead += new
    return found


def _name(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def _imported(name: str, path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
                start = parents[: len(parents) - node.level + 1]
                base = ".".join([*start, *filter(None, [node.module])])
            found |= {f"{base}.{alias.name}" for alias in node.names}
    return found


def _resolved(imported: str, modules: Mapping[str, Path], others: set[str]) -> str | None:
    """The module of which *imported* is one, or a name inside."""
    if imported.partition(".")[0] in others:
        return imported.partition(".")[0]
    if imported in modules:
        return imported
    parent = imported.rpartition(".")[0]
    return parent if parent in modules else None
