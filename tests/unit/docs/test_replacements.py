"""The page of what is replaced in libraries has what the code replaces, and the code no more."""

from __future__ import annotations

import re

from tests.unit.docs.pages import DOCS
from tests.unit.docs.replacements import MODULES, Replacing, past_the_helper, replacings

PAGE = (DOCS / "design" / "replacements.md").read_text()
CALLS = [call for path in MODULES for call in replacings(path)]
_ROW = re.compile(r"^\| (.+) \| `(matex/[^`]+)` \| .+ \|$", re.MULTILINE)

# Values that modules remember, beside the streams and arguments in ``sys``: no functions.
_STATE = {"tempfile.tempdir"}


def rows(lasts: str) -> dict[str, str]:
    """Text of the page about what each module replaces, by module."""
    section = PAGE.partition(f"\n## For {lasts}\n")[2].partition("\n## ")[0]
    return {module: what for what, module in _ROW.findall(section)}


def told(call: Replacing) -> bool:
    names = re.findall(r"[\w.]+", rows(call.lasts).get(call.module, ""))
    return bool(names) and (call.name == "*" or any(n.split(".")[-1] == call.name for n in names))


def test_the_page_has_each_replacement() -> None:
    assert [call for call in CALLS if not told(call)] == []


def test_the_page_has_no_module_that_replaces_nothing() -> None:
    for lasts in ("the process", "a context"):
        assert rows(lasts).keys() == {call.module for call in CALLS if call.lasts == lasts}


def test_no_module_goes_past_the_helper() -> None:
    found = {name for path in MODULES for name in past_the_helper(path)}
    assert {name for name in found if name not in _STATE and not name.startswith("sys.")} == set()
