"""CSV and its kin, compared with pandas."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ci.readers.cases.case import Case, Members

__all__ = ["CASES"]

_DICE = np.random.default_rng(0)
_FRAME = pd.DataFrame(_DICE.normal(size=(30, 4)), columns=list("abcd"))
_FRAME.insert(0, "label", _DICE.integers(0, 3, 30))
_PLAIN = "1,2.5,-3\n0,4,5e-3\n1,.5,6.\n"


def _pandas(label: int = 0, **how: Any) -> Callable[[Path], Members]:
    """``y``, the column *label*, and ``x``, the others, as pandas reads the file."""

    def read(path: Path) -> Members:
        frame = pd.read_csv(path, **how)
        table = frame.to_numpy(dtype=np.float64)
        place = label % table.shape[1]
        y = frame.iloc[:, place].to_numpy()
        return {"x": np.delete(table, place, axis=1), "y": y}

    return read


def _text(
    name: str, content: str | bytes, read: Callable[[Path], Members] | None = None, *,
    word: str = "", file: str = "data.csv", options: Mapping[str, Any] | None = None,
) -> Case:  # fmt: skip
    """A case of this very *content*."""
    raw = content.encode() if isinstance(content, str) else content

    def write(path: Path) -> None:
        path.write_bytes(gzip.compress(raw) if file.endswith(".gz") else raw)

    return Case(name, file, write, read, word, options or {})


def _by_pandas(name: str, file: str = "data.csv", *, word: str = "", **how: Any) -> Case:
    """A case with a frame that pandas writes."""

    def write(path: Path) -> None:
        _FRAME.to_csv(path, index=False, **how)

    read = {key: how[key] for key in ("sep",) if key in how}
    if how.get("header") is False:
        read["header"] = None
    return Case(name, file, write, _pandas(**read), word)


def _by_csv(name: str, rows: list[list[Any]], read: Any, *, word: str = "", **how: Any) -> Case:
    """A case with *rows* that Python's csv module writes."""

    def write(path: Path) -> None:
        with path.open("w", newline="") as file:
            csv.writer(file, **how).writerows(rows)

    return Case(name, "data.csv", write, read, word)


def _members(path: Path) -> None:
    """Gzip in two members, as ``cat a.gz b.gz`` makes it."""
    path.write_bytes(gzip.compress(b"1,2\n3,4\n") + gzip.compress(b"5,6\n"))


def _put(path: Path, content: str) -> None:
    path.write_text(content)


def _cut(path: Path) -> None:
    path.write_bytes(gzip.compress(_PLAIN.encode() * 500)[:-30])


_NO_HEADER = _pandas(header=None)
_HEADER = _pandas()
_MISSING = "NA|number|empty|missing"
_LONG = "".join(f"{row % 2},{row}.25,{row * row}\n" for row in range(40000))

CASES = [
    _by_pandas("by pandas"),
    _by_pandas("by pandas, no header", header=False),
    _by_pandas("by pandas, .csv.gz", "data.csv.gz"),
    _by_pandas("by pandas, tabs", "data.tsv", sep="\t"),
    _by_pandas("by pandas, semicolons", sep=";"),
    _by_pandas("by pandas, two digits", float_format="%.2f"),
    _by_pandas("by pandas, exponents", float_format="%.17e"),
    _by_pandas("by pandas, CRLF", lineterminator="\r\n"),
    _by_pandas("by pandas, all quoted", quoting=csv.QUOTE_ALL, word='quot|"'),
    _by_pandas("by pandas, header quoted", quoting=csv.QUOTE_NONNUMERIC),
    _text("by pandas, with its index", _FRAME.to_csv(), _pandas(index_col=None),
          word="column|header|name|empty"),
    _text("by pandas, missing values", pd.DataFrame(
        {"y": [0, 1, 0], "a": [1.5, np.nan, 2]}).to_csv(index=False), _HEADER, word=_MISSING),
    _text("by pandas, bools", "y,a,b\n1,True,2\n0,False,3\n", word="True"),
    _by_csv("by csv", [[1, 2.5, -3], [0, 4, 5]], _NO_HEADER),
    _by_csv("by csv, all quoted", [["y", "a"], [1, 2.5], [0, 4]], _HEADER, quoting=csv.QUOTE_ALL,
            word='quot|"'),
    _by_csv("by csv, a delimiter in a name", [["y", "a, b", "c"], [1, 2.5, 3], [0, 4, 5]], _HEADER,
            word="quot|values in every row|name"),
    _by_csv("by csv, a line end in a name", [["y", "a\nb", "c"], [1, 2, 3], [0, 4, 5]], _HEADER,
            word="quot|values in every row|name"),
    _by_csv("by csv, words", [["y", "a"], [1, "x"], [0, "y"]], None, word="number"),
    _text("plain", _PLAIN, _NO_HEADER),
    _text("40 000 rows", _LONG, _NO_HEADER),
    _text("one row", "1,2,3\n", _NO_HEADER),
    _text("no line end at the end", _PLAIN[:-1], _NO_HEADER),
    _text("empty lines at the end", _PLAIN + "\n\n", _NO_HEADER),
    _text("an empty line in between", "1,2\n\n3,4\n", _NO_HEADER, word="row 1|empty"),
    _text("an empty line at first", "\n1,2\n3,4\n", _NO_HEADER, word="first|empty"),
    _text("header only", "y,a,b\n", word="row"),
    _text("numbers as names", "0,1,2\n1,2.5,3\n0,4,5\n", _HEADER, options={"header": True}),
    _text("label by number", _PLAIN, _pandas(-1, header=None), options={"label": -1}),
    _text("label by name", _FRAME.to_csv(index=False), _pandas(3), options={"label": "c"}),
    _text("NA in the first row", "1,NA,3\n0,4,5\n1,6,7\n", _NO_HEADER, word=_MISSING),
    _text("NA in the first row under a header", "y,a,b\n1,NA,3\n0,4,5\n", _HEADER, word=_MISSING),
    _text("an empty field in the first row", "1,,3\n0,4,5\n1,6,7\n", _NO_HEADER, word=_MISSING),
    _text("an empty field later", "1,2,3\n0,,5\n1,6,7\n", _NO_HEADER, word=_MISSING),
    _text("a question mark in the first row", "1,?,3\n0,4,5\n1,6,7\n",
          _pandas(header=None, na_values="?"), word=r"\?"),
    _text("nan in the first row", "1,nan,3\n0,4,5\n1,inf,-inf\n", _NO_HEADER),
    _text("NULL and None", "y,a\n1,NULL\n0,None\n", _HEADER, word="NULL"),
    _text("1e300", "0,1e300,3\n1,4,5\n", _NO_HEADER, word="1e300|float32"),
    _text("1e-300", "0,1e-300,3\n1,4,5\n", _NO_HEADER, word="1e-300|float32"),
    _text("integers above 2^24 as labels", "16777216,1\n16777217,2\n16777218,3\n", _NO_HEADER,
          word="16777217|float32"),
    _text("integers above 2^24 as values", "0,16777216\n1,16777217\n0,16777218\n", _NO_HEADER,
          options={"dtype": "float64"}),
    _text("nanoseconds", "0,1700000000000000001\n1,1700000000000000002\n", _NO_HEADER,
          word="1700000000000000|float32"),
    _text("integers of 30 digits", "0,123456789012345678901234567890\n1,5\n", _NO_HEADER),
    _text("underscores in numbers", "0,1_000,2\n1,2_000,3\n", word="1_000"),
    _text("underscores below a header", "y,a,b\n0,1_000,2\n1,2_000,3\n", word="1_000"),
    _text("thousands quoted", '0,"1,000",2\n1,"2,000",3\n', _pandas(header=None, thousands=","),
          word="quot|number|1,000"),
    _text("thousands with blanks", "0;1 000;2\n1;2 000;3\n",
          _pandas(header=None, sep=";", thousands=" "), word="1 000"),
    _text("decimal comma", "0;1,5;2\n1;2,5;3\n", _pandas(header=None, sep=";", decimal=","),
          word="1,5"),
    _text("decimal comma in the first of three", "0;1,5;2,5;3,5;4,5\n1;2,5;3,5;4,5;5,5\n",
          _pandas(header=None, sep=";", decimal=","), word="1,5"),
    _text("decimal comma and two columns", "0;1,5\n1;2,5\n",
          _pandas(header=None, sep=";", decimal=","), word="1,5"),
    _text("hexadecimal", "0,0x10\n1,0x11\n", word="0x10"),
    _text("Fortran's exponents", "0,1.5D3\n1,2.5D3\n", word="1.5D3"),
    _text("a percent sign", "0,15%\n1,20%\n", word="15%"),
    _text("plus signs", "+1,+2.5\n+0,+3\n", _NO_HEADER),
    _text("dates", "y,day,a\n1,2024-01-02,3\n0,2024-01-03,4\n", word="2024"),
    _text("quoted numbers", '"1","2.5"\n"0","3"\n', _NO_HEADER, word='quot|"'),
    _text("one field quoted", 'y,a,b\n1,"2.5",3\n0,4,5\n', _HEADER, word='quot|"'),
    _text("single quotes", "'1','2.5'\n'0','3'\n", _pandas(header=None, quotechar="'"),
          word="quot|'2.5'|number"),
    _text("UTF-8 with a mark", "\ufeff1,2\n3,4\n", _NO_HEADER),
    _text("UTF-8 with a mark and a header", "\ufeffy,a\n1,2\n3,4\n", _pandas(1),
          options={"label": "a"}),
    _text("UTF-8 with a mark, .csv.gz", "\ufeff1,2\n3,4\n", _NO_HEADER, file="data.csv.gz"),
    _text("names in UTF-8", "größe,日本\n1,2\n3,4\n", _pandas(1), options={"label": "日本"}),
    _text("names in Latin-1", "größe,a\n1,2\n3,4\n".encode("latin1"), _pandas(encoding="latin1")),
    _text("UTF-16", "1,2\n3,4\n".encode("utf-16"), _pandas(header=None, encoding="utf-16"),
          word="UTF-16|text"),
    _text("CR alone", "1,2\r3,4\r5,6\r", _NO_HEADER, word="line|CR|values"),
    _text("CR alone, with a header", "y,a\r1,2\r3,4\r", _HEADER, word="line|CR|values"),
    _text("CRLF", _PLAIN.replace("\n", "\r\n"), _NO_HEADER),
    _text("CRLF, with a header", "y,a\r\n1,2\r\n3,4\r\n", _HEADER),
    _text("CRLF and LF", "1,2\r\n3,4\n5,6\r\n", _NO_HEADER),
    _text("CRLF, empty lines at the end", "1,2\r\n3,4\r\n\r\n", _NO_HEADER),
    _text("tabs", "1\t2\n3\t4\n", _pandas(header=None, sep="\t"), file="data.txt"),
    _text("spaces", "1 2 3\n4 5 6\n", _pandas(header=None, sep=" "), file="data.txt",
          word="comma|space"),
    _text("columns aligned by spaces", "1   2.0  3\n4  55.5  6\n",
          _pandas(header=None, sep=r"\s+"), file="data.txt", word="comma|space"),
    _text("spaces after commas", "1, 2, 3\n4, 5, 6\n", _NO_HEADER),
    _text("spaces after commas, with a header", "y, a, b\n1, 2, 3\n4, 5, 6\n", _HEADER),
    _text("bars", "1|2|3\n4|5|6\n", _pandas(header=None, sep="|"), word="comma"),
    _text("commas and semicolons", "1,2;3,4\n5,6;7,8\n", word="2;3|delimiter|decimal"),
    _text("a comment at first", "# made today, by us\n1,2\n3,4\n",
          _pandas(header=None, comment="#"), word="comment|#|values"),
    _text("a comment of as many columns", "# y, a, b\n1,2,3\n3,4,5\n",
          _pandas(header=None, comment="#")),
    _text("a comment in between", "1,2\n# half,way\n3,4\n", _pandas(header=None, comment="#"),
          word="#"),
    _text("a comment at the end of a line", "1,2 # one\n3,4\n",
          _pandas(header=None, comment="#"), word="#"),
    _text("a delimiter at the end of each line", "1,2,\n3,4,\n5,6,\n",
          lambda path: {"x": np.array([[2.0], [4], [6]]), "y": np.array([1.0, 3, 5])},
          word="empty|number|missing"),
    _text("a delimiter at the end, with a header", "y,a,\n3,4,\n5,6,\n",
          lambda path: {"x": np.array([[4.0], [6]]), "y": np.array([3.0, 5])},
          word="empty|number|missing"),
    _text("a row too short", "1,2,3\n4,5\n6,7,8\n", word="row 1"),
    _text("a row too long", "1,2,3\n4,5,6,7\n6,7,8\n", word="row 1"),
    _text("a row too long and one too short", "1,2,3\n4,5,6,7\n6,7\n", word="row 1"),
    _text("a header shorter than the rows", "y,a\n1,2,3\n4,5,6\n", word="row 0"),
    _text("two headers", "y,a\nunit,K\n1,2\n3,4\n", word="unit"),
    _text("the header again in between", "y,a\n1,2\ny,a\n3,4\n", word="row 1"),
    _text("one column", "1\n2\n3\n", word="one more value"),
    _text("empty", "", word="empty"),
    _text("blank lines only", "\n\n\n", word="empty|first line"),
    _text("zero bytes inside", b"1,2\n3,\x004\n", word="text|number|x00|NUL"),
    _text("bytes of zero behind", b"1,2\n3,4\n" + bytes(64), word="text|number|x00|row|NUL"),
    _text("a control-Z behind", b"1,2\n3,4\n\x1a", word="text|number|row|x1a"),
    _text("digits of other scripts", "1,\u0661\u0662\n0,\u0663\n", word="\u0661|number"),
    _text(".csv.gz", _PLAIN, _NO_HEADER, file="data.csv.gz"),
    Case(".csv.gz of two members", "data.csv.gz", _members, _NO_HEADER),
    Case(".csv.gz cut short", "data.csv.gz", _cut, word="end"),
    _text("packed by gzip under a plain name", gzip.compress(_PLAIN.encode()), word="gzip"),
    Case("plain under a name of gzip", "data.csv.gz", lambda path: _put(path, _PLAIN),
         word="gzip|packed"),
    _text("libsvm", "1 1:0.5 3:2\n0 2:1.5\n", word="comma|number", file="data.txt"),
    _text("JSON lines", '{"y": 1, "a": 2}\n{"y": 0, "a": 3}\n', word="number|JSON"),
    _text("ARFF", "@relation a\n@attribute b numeric\n@data\n1,2\n", word="comma|number",
          file="data.txt"),
]  # fmt: skip
