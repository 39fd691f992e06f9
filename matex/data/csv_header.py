"""Names of columns in the first line of a CSV file, which may be quoted. Pure."""

from __future__ import annotations

import re

__all__ = ["names_in", "unquoted"]


def unquoted(text: str) -> str:
    """The *text* without its parts between double quotes."""
    return re.sub(r'"[^"]*"', "", text)


def names_in(text: str, delimiter: str) -> list[str]:
    """Names in *text*; in one between double quotes the *delimiter* is a character like others."""
    quoted = r'\s*"(?:[^"]|"")*"\s*'
    fields = re.findall(f"(?:^|{delimiter})({quoted}(?={delimiter}|$)|[^{delimiter}]*)", text)
    return [_name(field.strip()) for field in fields]


def _name(field: str) -> str:
    is_quoted = len(field) > 1 and field[0] == field[-1] == '"'
    return field[1:-1].replace('""', '"') if is_quoted else field.strip("\"'")
