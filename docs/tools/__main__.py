"""``python -m docs.tools``: make the tables in the pages anew; ``--check`` only compares."""

from __future__ import annotations

import sys

from docs.tools.tables import ROOT, stale


def main() -> int:
    pages = {str(page.relative_to(ROOT)): (page, text) for page, text in stale().items()}
    if "--check" in sys.argv:
        print(*(f"{name} is not what the code says: make tables" for name in pages), sep="\n")
        return int(bool(pages))
    for name, (page, text) in pages.items():
        page.write_text(text)
        print(name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
