"""Count what makes the code easy to find one's way in, and refuse more than the limits.

    python -m ci.testing.house [--list NAME]      all counts, or the places that one of them counts

`LIMITS` is the one table: a count above its limit fails. Where the limit is not yet the goal, it is
the count of today and may only fall. Imports against the flow of the packages, and new packages
without a floor, are refused by the contracts in pyproject.toml.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from ci.jobs import ROOT
from ci.testing import import_graph, public_names

PACKAGES = ("ft", "checkpoints", "matex")
OLD_NAMES = "docs/design/old_names.md"
LONGEST_MODULE = 300
LONGEST_README = 180
LONGEST_SUBJECT = 72
#: Commits from this time on have their subjects looked at.
SUBJECTS_SINCE = "2026-11-24T20:20:00+0000"
#: Commits from this time on say in a body why.
BODIES_SINCE = "2026-12-01T05:00:00+0000"

#: The packages of matex that import TensorFlow or Keras: what another back end would replace.
BACKEND_PACKAGES = frozenset(
    {
        "apoptosis",
        "data",
        "exchange",
        "keras_hooks",
        "optimizers",
        "process",
        "sources",
        "steps",
    }
)

_FRAGMENT = re.compile(r"(Of|Those|That|As|Its|The same)\b")
_ARGUMENT = re.compile(r"\*{0,2}\w+(, \*{0,2}\w+)*: (of|that|those|as|by|for)\b")
_NO_NOUN = re.compile(
    r"(What|Who|Whose|Which|How|Where|When|Around|By|In|For|With|From|To|After|Before|On|At)\b"
)
_ARGUMENT_NO_NOUN = re.compile(
    r"\*{0,2}\w+(, \*{0,2}\w+)*: (how|what|who|which|when|where|why|called|asked|told|so)\b"
)
_SECTION = re.compile(r"[A-Z]\w+:$")
_ROW = re.compile(r"^\| (?!Old |-)(.+?) \|", re.MULTILINE)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


class Limit(NamedTuple):
    """A count, the most that it may be, and the goal for it."""

    find: Callable[[Path], list[str]]
    most: int
    goal: int


def loose_modules(root: Path) -> list[str]:
    """Modules of matex that lie in no package."""
    return [str(path.relative_to(root)) for path in sorted((root / "matex").glob("*.py"))]


def long_modules(root: Path) -> list[str]:
    """Modules of the packages and of ci with more than 300 lines."""
    found = []
    for path in _modules(root, *PACKAGES, "ci"):
        lines = path.read_text().count("\n")
        if lines > LONGEST_MODULE:
            found.append(f"{path.relative_to(root)}: {lines} lines")
    return found


def import_circles(root: Path) -> list[str]:
    """Groups of modules that import each other, late imports and those for types counted."""
    return [" ".join(circle) for circle in import_graph.circles(import_graph.read(root, PACKAGES))]


def doubled_classes(root: Path) -> list[str]:
    """Class names, without leading underscores, that stand in more than one place."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path in _modules(root, *PACKAGES):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                name = node.name.lstrip("_")
                places[name].append(f"{path.relative_to(root)}:{node.lineno}")
    return [f"{name}: {' '.join(at)}" for name, at in sorted(places.items()) if len(at) > 1]


def old_names(root: Path) -> list[str]:
    """Modules and classes whose name is on the page of old names, alone or among others.

    Words that are old in one sense only, which the page gives in parentheses, do not count.
    """
    old = re.compile("|".join(rf"_{word}s?_" for word in _old_words(root)) or "(?!)")
    found = []
    for path in _modules(root, *PACKAGES):
        place = str(path.relative_to(root))
        if old.search(f"_{path.stem}_"):
            found.append(place)
        found += [
            f"{place}:{node.lineno}: {node.name}"
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ClassDef) and old.search(f"_{_snake(node.name)}_")
        ]
    return found


def old_functions(root: Path) -> list[str]:
    """Functions and parameters whose whole name is on the page of old names.

    As a part of a longer name such a word is often plain English: ``keep_last``, ``take_over``.
    """
    words = _old_words(root)
    old = {*words, *(f"{word}s" for word in words)}
    found = []
    for path in _modules(root, *PACKAGES):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                given = node.args
                arguments = (*given.posonlyargs, *given.args, *given.kwonlyargs)
                names = (node.name, *(argument.arg for argument in arguments))
                place = f"{path.relative_to(root)}:{node.lineno}"
                found += [f"{place}: {name}" for name in names if _snake(name) in old]
    return found


def _old_words(root: Path) -> list[str]:
    """Words of the page of old names without those that are old in one sense only."""
    page = root / OLD_NAMES
    cells = _ROW.findall(page.read_text()) if page.exists() else []
    return [_snake(word) for cell in cells for word in cell.split(", ") if "(" not in word]


def _snake(name: str) -> str:
    """Words of *name*, of a class or in prose, as in the name of a module."""
    return "_".join(_WORD.findall(name)).lower()


def fragments(root: Path) -> list[str]:
    """First sentences and lines of arguments whose noun is elsewhere."""
    return [f"{at}: {line}" for at, text in _docstrings(root) for line in _fragments_of(text)]


def openings_without_noun(root: Path) -> list[str]:
    """First sentences that begin with a question or a preposition, not with a subject or a verb."""
    return [
        f"{at}: {text.splitlines()[0]}" for at, text in _docstrings(root) if _NO_NOUN.match(text)
    ]


def _docstrings(root: Path) -> Iterator[tuple[str, str]]:
    """Place and text of each docstring of the repository."""
    for path in _modules(root, *PACKAGES, "ci", "examples", "tests"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                place = f"{path.relative_to(root)}:{getattr(node, 'lineno', 1)}"
                yield place, ast.get_docstring(node) or ""


def arguments_without_noun(root: Path) -> list[str]:
    """Lines of arguments that begin with a question or a participle, not with what they are."""
    return [
        f"{at}: {line}"
        for at, text in _docstrings(root)
        for line in _arguments_of(text)
        if _ARGUMENT_NO_NOUN.match(line)
    ]


def _fragments_of(text: str) -> Iterator[str]:
    if _FRAGMENT.match(text):
        yield text.splitlines()[0]
    yield from filter(_ARGUMENT.match, _arguments_of(text))


def _arguments_of(text: str) -> Iterator[str]:
    """Lines of the sections that describe arguments and fields."""
    in_arguments = False
    for line in text.splitlines():
        stripped = line.strip()
        if _SECTION.match(stripped):
            in_arguments = stripped in ("Args:", "Attributes:")
        elif in_arguments:
            yield stripped


def backend_modules(root: Path) -> list[str]:
    """Modules of matex that import TensorFlow or Keras."""
    graph = import_graph.read(root, ("matex",), others=("tensorflow", "keras"))
    return sorted(name for name, imported in graph.items() if imported & {"tensorflow", "keras"})


def stray_backend_packages(root: Path) -> list[str]:
    """Packages outside `BACKEND_PACKAGES` that import TensorFlow or Keras."""
    packages = {name.split(".")[1] for name in backend_modules(root)}
    return sorted(packages - BACKEND_PACKAGES)


def idle_backend_packages(root: Path) -> list[str]:
    """Packages of `BACKEND_PACKAGES` that import neither, and are to leave that list."""
    packages = {name.split(".")[1] for name in backend_modules(root)}
    return sorted(BACKEND_PACKAGES - packages)


def readme_lines(root: Path) -> list[str]:
    """Lines of the README beyond those it may have."""
    return (root / "README.md").read_text().splitlines()[LONGEST_README:]


def long_subjects(root: Path) -> list[str]:
    """Subjects of newer commits that are longer than 72 characters; none where git has no history.

    They are chosen by the time of the commit, which a shallow or detached clone knows, too.
    """
    commits = _commits(root, since=SUBJECTS_SINCE)
    return [f"{name} {text}" for name, text, _ in commits if len(text) > LONGEST_SUBJECT]


def bare_commits(root: Path) -> list[str]:
    """Newer commits without a body, which is where a commit says why; none without a history."""
    commits = _commits(root, since=BODIES_SINCE)
    return [f"{name} {subject}" for name, subject, body in commits if not body]


LIMITS = {
    "loose modules": Limit(loose_modules, 8, 8),
    "long modules": Limit(long_modules, 0, 0),
    "import circles": Limit(import_circles, 0, 0),
    "doubled classes": Limit(doubled_classes, 0, 0),
    "old names": Limit(old_names, 0, 0),
    "old function names": Limit(old_functions, 0, 0),
    "fragments": Limit(fragments, 0, 0),
    "openings without noun": Limit(openings_without_noun, 0, 0),
    "arguments without noun": Limit(arguments_without_noun, 0, 0),
    "public docstrings": Limit(public_names.lacking, 0, 0),
    "backend modules": Limit(backend_modules, 68, 68),
    "stray backend packages": Limit(stray_backend_packages, 0, 0),
    "idle backend packages": Limit(idle_backend_packages, 0, 0),
    "README lines too many": Limit(readme_lines, 0, 0),
    "long commit subjects": Limit(long_subjects, 0, 0),
    "commits without body": Limit(bare_commits, 0, 0),
}


def _commits(root: Path, *, since: str) -> list[tuple[str, str, str]]:
    """Hash, subject and body of each commit since a time, merges left out."""
    command = ["git", "log", f"--since={since}", "--no-merges", "--format=%h%x1f%s%x1f%b%x1e"]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return []
    entries = [entry.lstrip("\n") for entry in done.stdout.split("\x1e")]
    commits = [entry.split("\x1f") for entry in entries if entry]
    return [(name, subject, body.strip()) for name, subject, body in commits]


def _modules(root: Path, *folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted((root / folder).rglob("*.py"))


def main() -> int:
    """Print the table; 1 where a count is above its limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", metavar="NAME", choices=LIMITS, help="the places it counts")
    name = parser.parse_args().list
    if name is not None:
        print(*LIMITS[name].find(ROOT), sep="\n")
        return 0
    failed = False
    for name, limit in LIMITS.items():
        found = limit.find(ROOT)
        note = f", goal {limit.goal}" if limit.most != limit.goal else ""
        if len(found) < limit.most != limit.goal:
            note += f": set the limit to {max(limit.goal, len(found))}"
        print(f"{name:<22} {len(found):>4} of {limit.most}{note}")
        if len(found) > limit.most:
            failed = True
            print(*(f"    {place}" for place in found), sep="\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
