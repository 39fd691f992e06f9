"""What MkDocs calls while it builds the site: pictures in the page's colours, and plain names.

Nothing else about the pages differs from the repository.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # MkDocs loads this file by its path

from docs.pictures.svg import DARK_END, DARK_START  # noqa: E402

_PICTURE = re.compile(r'<img alt="([^"]*)" src="(?:\.\./)*pictures/([a-z_]+)\.svg" ?/?>')
# Docstrings are written for Sphinx, too: a role before a name, and "::" before a block.
_ROLE = re.compile(r":(?:meth|class|func|mod|data|attr|exc):<code>~?")
_ARROW = re.compile(r'(id="|url\(#)arrow-')
_DARK = re.compile(re.escape(DARK_START) + ".*?" + re.escape(DARK_END), re.DOTALL)


def on_page_content(html: str, **_: Any) -> str:
    """The page with its pictures inside, which follow the light or dark scheme; plain names."""
    return _PICTURE.sub(_inside, _ROLE.sub("<code>", html).replace("<p>::</p>", ""))


def _inside(match: re.Match[str]) -> str:
    svg = (ROOT / "docs" / "pictures" / f"{match[2]}.svg").read_text()
    # A page may have several: each needs names of its own for its arrowheads.
    return _ARROW.sub(rf"\1{match[2]}-arrow-", _DARK.sub("", svg).strip())
