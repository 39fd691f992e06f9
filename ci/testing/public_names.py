"""Sections that the docstrings of public names lack: Args, Returns, Raises, an example.

    python -m ci.testing.public_names

Public are the names in ``__all__`` of the packages below, and the public methods of classes among
them. A docstring that says "see :meth:`X`" leaves its sections to X, which is looked at in its
place. Nothing is imported.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ci.jobs import ROOT

__all__ = ["PACKAGES", "Public", "lacking", "public_names"]

PACKAGES = ("ft", "checkpoints", "matex", "matex.data", "matex.optimizers")

_SECTION = re.compile(r"^ *(Args|Attributes|Returns|Yields|Raises|Example)s?:$", re.MULTILINE)
_ELSEWHERE = re.compile(r"[Ss]ee\s+:(?:meth|func|class):`([\w.]+)`")
_NO_VALUE = ("None", "NoReturn", "Never")
_VALUES = ("dataclass", "NamedTuple")

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Public(NamedTuple):
    """A public name: the package that gives it, and where it is defined."""

    package: str
    name: str
    path: Path
    node: ast.ClassDef | Function

    @property
    def place(self) -> str:
        """The name, and its file and line."""
        return f"{self.package}.{self.name} ({self.path}:{self.node.lineno})"


def public_names(root: Path) -> list[Public]:
    """All public functions and classes; constants and names of types are left out."""
    return [public for package in PACKAGES for public in _names_of(root, package)]


def lacking(root: Path) -> list[str]:
    """One line for each section, argument or docstring that is missing."""
    return [
        f"{public.place}: {what}"
        for public in public_names(root)
        for what in _lacks(root, public.path, public.node)
    ]


def _file_of(root: Path, module: str) -> Path:
    path = root / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _names_of(root: Path, package: str) -> Iterator[Public]:
    path = _file_of(root, package)
    if not path.exists():
        return
    tree = _parsed(path)
    sources = {name: package for name in _all_of(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            sources |= {a.asname or a.name: node.module for a in node.names}
        elif isinstance(node, ast.Dict):  # names found when they are asked for
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(value, ast.Constant):
                    sources[str(key.value)] = str(value.value)
    for name in _all_of(tree):
        file = _file_of(root, sources[name])
        for node in _parsed(file).body:
            if isinstance(node, ast.ClassDef | Function) and node.name == name:
                yield Public(package, name, file.relative_to(root), node)


def _all_of(tree: ast.Module) -> list[str]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def _lacks(root: Path, path: Path, node: ast.ClassDef | Function) -> Iterator[str]:
    text = ast.get_docstring(node) or ""
    if isinstance(node, Function):
        yield from _lacks_of_function(root, path, node, example=True)
    elif _is_a(root, path, node, ("Exception",)) or _is_a(root, path, node, ("Enum", "IntEnum")):
        if not text:
            yield "a docstring"
    else:
        if "Example" not in _sections(text):
            yield "Example"
        wanted = [] if _is_a(root, path, node, ("Protocol",)) else _fields(node)
        yield from _arguments_lacking(text, wanted)
        for method in node.body:
            if isinstance(method, Function) and not method.name.startswith("_"):
                for what in _lacks_of_function(root, path, method, example=False):
                    yield f"{method.name}: {what}"


def _lacks_of_function(root: Path, path: Path, node: Function, *, example: bool) -> Iterator[str]:
    text = ast.get_docstring(node) or ""
    if not text:
        yield "a docstring"
        return
    decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
    if decorators & {"property", "cached_property", "functools.cached_property"}:
        return
    sections = _sections(text)
    if example and "Example" not in sections:
        yield "Example"
    if match := _ELSEWHERE.search(text):
        yield from _lacks_elsewhere(root, path, match[1])
        return
    yield from _arguments_lacking(text, _parameters(node))
    returned = ast.unparse(node.returns) if node.returns else "None"
    is_context = any("contextmanager" in decorator for decorator in decorators)
    if returned not in _NO_VALUE and not is_context and not {"Returns", "Yields"} & sections:
        yield "Returns"
    if any(isinstance(inner, ast.Raise) for inner in ast.walk(node)) and "Raises" not in sections:
        yield "Raises"


def _lacks_elsewhere(root: Path, path: Path, target: str) -> Iterator[str]:
    """Sections that *target*, named in the file at *path*, lacks; Keras's own lack nothing."""
    if target.startswith("keras."):
        return
    *owner, name = target.split(".")[-2:]
    for file in sorted((root / path.parts[0]).rglob("*.py")):
        scopes: list[ast.Module | ast.ClassDef] = [_parsed(file)]
        scopes += [c for c in _parsed(file).body if isinstance(c, ast.ClassDef)]
        for scope in scopes:
            if isinstance(scope, ast.ClassDef) and [scope.name] != owner:
                continue
            for node in scope.body:
                if isinstance(node, Function) and node.name == name:
                    if _ELSEWHERE.search(ast.get_docstring(node) or ""):
                        yield f"sections, or those of {target}"
                    yield from _lacks_of_function(root, file.relative_to(root), node, example=False)
                    return
    yield f"{target}, to be seen instead"


def _sections(text: str) -> set[str]:
    return {match[1] for match in _SECTION.finditer(text)}


def _arguments_lacking(text: str, wanted: list[str]) -> Iterator[str]:
    described: set[str] = set()
    inside = False
    for line in text.splitlines():
        if match := re.fullmatch(r" *([A-Z]\w+):", line):
            inside = match[1] in ("Args", "Attributes")
        elif inside and (match := re.match(r" {4,}(\*{0,2}\w+(?:, \*{0,2}\w+)*): ", line)):
            described |= {name.strip(" *") for name in match[1].split(",")}
    for name in wanted:
        if name not in described:
            yield f"argument {name}"


def _parameters(node: Function) -> list[str]:
    arguments = node.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
    return [a.arg for a in every if a.arg not in ("self", "cls") and not a.arg.startswith("_")]


def _fields(node: ast.ClassDef) -> list[str]:
    """Parameters of the constructor, or the fields of a class of values."""
    for method in node.body:
        if isinstance(method, Function) and method.name == "__init__":
            return _parameters(method)
    made_by = ast.unparse(ast.Module([*node.decorator_list, *node.bases], []))  # type: ignore[list-item]
    if not any(name in made_by for name in _VALUES):
        return []
    targets = [statement.target for statement in node.body if isinstance(statement, ast.AnnAssign)]
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    return [name for name in names if not name.startswith("_")]


def _is_a(root: Path, path: Path, node: ast.ClassDef, kinds: tuple[str, ...]) -> bool:
    """Whether a base of the class, or of a base in the same file, is one of *kinds*."""
    classes = {c.name: c for c in _parsed(root / path).body if isinstance(c, ast.ClassDef)}
    for base in node.bases:
        name = ast.unparse(base).split("[")[0].split(".")[-1]
        if name in kinds or (kinds == ("Exception",) and name.endswith("Error")):
            return True
        if name in classes and _is_a(root, path, classes[name], kinds):
            return True
    return False


if __name__ == "__main__":
    print(*lacking(ROOT), sep="\n")
    sys.exit(bool(lacking(ROOT)))
