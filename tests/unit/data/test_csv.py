"""CSV: exact values by row, whatever the dialect; wrong rows are named; large gzip is refused."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matex import data
from matex.data import csvtext
from matex.data.csv import open_csv
from matex.errors import DataError, InputError

FLOATS = st.floats(width=32, allow_nan=False)


def text(values: np.ndarray, *, delimiter: str = ",", end: str = "\n") -> str:
    return "".join(delimiter.join(repr(float(v)) for v in row) + end for row in values)


def written(path: Path, content: str | bytes) -> Path:
    raw = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few rows a block, so that rows lie across their borders."""
    monkeypatch.setattr(csvtext, "BLOCK_BYTES", 64)


@given(
    values=st.integers(2, 5).flatmap(
        lambda width: st.lists(
            st.lists(FLOATS, min_size=width, max_size=width), min_size=1, max_size=30
        )
    ),
    delimiter=st.sampled_from(",;\t"),
    end=st.sampled_from(["\n", "\r\n"]),
    header=st.booleans(),
    closed=st.booleans(),
    packed=st.booleans(),
    seed=st.integers(0, 9),
)
def test_values_are_exact_in_any_order(
    tmp_path_factory: pytest.TempPathFactory,
    values: list[list[float]],
    delimiter: str,
    end: str,
    header: bool,
    closed: bool,
    packed: bool,
    seed: int,
) -> None:
    array = np.array(values, np.float32)
    names = [f"column {i}" for i in range(array.shape[1])]
    content = (delimiter.join(names) + end) * header + text(array, delimiter=delimiter, end=end)
    name = "data.csv.gz" if packed else "data.csv"
    path = tmp_path_factory.mktemp("csv") / name
    written(path, content if closed else content.removesuffix(end))
    indices = np.random.default_rng(seed).permutation(len(array))
    with data.open(path) as opened:
        assert np.array_equal(opened.x.rows(indices), array[indices, 1:])
        assert np.array_equal(opened.y.rows(indices), array[indices, 0])
        assert opened.facts.get("columns", names[1:]) == names[1:]
        assert np.array_equal(opened.x.rows(np.array([0, 0])), array[[0, 0], 1:])


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        ('"y","a,b"', ["y", "a,b"]),
        ('y , "a,b"', ["y", "a,b"]),
        ('"say ""y""","a;b;c"', ['say "y"', "a;b;c"]),
        ('"y,a"', ["y", "a"]),  # the line, not a name
        ('"y,a', ["y", "a"]),  # a quote that does not end
        ('y,a"', ["y", "a"]),
    ],
)
def test_a_header_may_have_commas_in_quotes(
    tmp_path: Path, header: str, columns: list[str]
) -> None:
    found = data.open(written(tmp_path / "data.csv", f"{header}\n1,2\n"))
    assert [*found.facts["label"], *found.facts["columns"]] == columns
    assert (found.y[0], found.x[0].tolist()) == (1, [2])


@pytest.mark.parametrize("name", ["data.csv", "data.csv.gz"])
def test_forward_reading_gives_the_same(name: str, tmp_path: Path, small_blocks: None) -> None:
    values = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    with open_csv(written(tmp_path / name, text(values)), forward=True) as opened:
        for lo in range(0, 50, 7):
            rows = np.arange(lo, min(lo + 7, 50))
            assert np.array_equal(opened.x.rows(rows), values[rows, 1:])
            assert np.array_equal(opened.y.rows(rows), values[rows, 0])
        if name.endswith("gz"):
            with pytest.raises(InputError, match=r"only be read forward. Received: row 0"):
                opened.x.rows(np.arange(2))


@pytest.mark.parametrize(("label", "place"), [(0, 0), (2, 2), (-1, 2), ("c", 2), ("a", 0)])
def test_the_label_by_number_and_by_name(label: int | str, place: int, tmp_path: Path) -> None:
    path = written(tmp_path / "data.csv", 'a,"b",c\n1,2,3\n4,5,6\n')
    opened = data.open(path, label=label)
    assert opened.y[:].tolist() == [1 + place, 4 + place]
    assert opened.facts["columns"] == [n for i, n in enumerate("abc") if i != place]


def test_numbers_may_name_the_columns(tmp_path: Path) -> None:
    path = written(tmp_path / "data.csv", "1,2\n3,4\n")
    assert len(data.open(path).y) == 2
    assert data.open(path, header=True).y[:].tolist() == [3]


def test_missing_values_that_say_so_are_values(tmp_path: Path) -> None:
    path = written(tmp_path / "data.csv", "1,nan\n0,-inf\n")
    assert np.isnan(data.open(path).x[0]).all()


GOOD = "1,2,3\n" * 50
BAD: dict[str, tuple[str, Any, dict[str, Any], str]] = {
    "too few": ("a.csv", GOOD + "1,2\n" + GOOD, {}, r"3 values.*Received: 2 in row 50 \(line 51"),
    "too many": ("a.csv", "l,m,n\n" + GOOD + "1,2,3,4", {}, r"Received: 4 in row 50 \(line 52"),
    "an empty line": ("a.csv", GOOD + "\n" + GOOD, {}, "Received: 1 in row 50"),
    "packed, too few": ("a.csv.gz", GOOD + "1,2\n", {}, r"a.csv.gz.*Received: 2 in row 50"),
    "cut in a row": ("a.csv", GOOD + "1,2,", {}, None),
    "packed, a word": ("a.csv.gz", GOOD + "1,x,3\n", {}, "'x' in row 50, column 1"),
    "one value": ("a.csv", "1\n2\n", {}, "a label and at least one more.*first line '1'"),
    "only a header": ("a.csv", "a,b\n", {}, "at least one row"),
    "no such column": ("a.csv", "a,b\n1,2\n", {"label": "c"}, "a, b. Received: 'c'"),
    "no names": ("a.csv", GOOD, {"label": "c"}, "no header"),
    "column 3 of 3": ("a.csv", GOOD, {"label": 3}, "one of the 3 columns.*Received: 3"),
    "size for text": ("a.csv", GOOD, {"size": (2, 2)}, "size is not for CSV"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files_are_named_with_the_row(case: str, tmp_path: Path, small_blocks: None) -> None:
    name, content, options, message = BAD[case]
    path = written(tmp_path / name, content)
    message = message or "'' in row 50, column 2"
    with pytest.raises(InputError, match=message) as caught:
        np.asarray(data.open(path, **options).x)
    assert "\n" not in str(caught.value)
    assert re.search("Received: ", str(caught.value))
    assert str(path) in str(caught.value)


def test_a_word_is_found_when_its_row_is_read(tmp_path: Path) -> None:
    path = written(tmp_path / "data.csv", "a,b\n" + "1,2\n" * 9 + "1,two\n")
    opened = data.open(path)
    assert opened.x[:9].tolist() == [[2.0]] * 9
    with pytest.raises(InputError, match=r"data.csv.*'two' in row 9, column 1 \(b\)"):
        opened.x[[3, 9]]


def test_gzip_cut_short_names_the_last_row(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(500, 3))
    path = written(tmp_path / "data.csv.gz", text(values))
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(InputError, match=r"data.csv.gz must be readable to its end.*after row"):
        data.open(path)


def test_large_gzip_is_refused_early_with_the_command_to_run(
    tmp_path: Path, small_blocks: None
) -> None:
    values = np.random.default_rng(0).normal(size=(9000, 3))
    path = written(tmp_path / "data.csv.gz", text(values))
    with pytest.raises(InputError, match=f"matex data convert {path} data.h5"):
        open_csv(path, gzip_bytes=20_000)


def test_a_file_that_changes_under_us(tmp_path: Path) -> None:
    path = written(tmp_path / "data.csv", GOOD)
    opened = data.open(path)
    path.write_text("1,2,3\n")
    with pytest.raises(InputError, match=r"data.csv must not change|numbers only"):
        np.asarray(opened.x)


def test_packed_and_plain_events_are_read_alike(real_data: Any, tmp_path: Path) -> None:
    packed = real_data("raw/HIGGS_20k.csv.gz")
    whole = data.open(packed)
    plain = data.open(written(tmp_path / "HIGGS.csv", gzip.decompress(packed.read_bytes())))
    rows = np.random.default_rng(0).permutation(20_000)[:200]
    assert whole.x.shape == (20_000, 28)
    assert set(np.unique(whole.y[:]).tolist()) == {0.0, 1.0}
    assert np.array_equal(plain.x.rows(rows), whole.x.rows(rows))
    assert np.array_equal(plain.y.rows(rows), whole.y.rows(rows))


@pytest.mark.parametrize("missing", ["NA", "", "?", "null", "N/A"])
def test_a_first_row_with_a_missing_value_is_no_header(tmp_path: Path, missing: str) -> None:
    path = written(tmp_path / "data.csv", f"1,{missing},3\n0,4,5\n")
    found = data.open(path)
    assert len(found.y) == 2 and "columns" not in found.facts
    with pytest.raises(
        InputError, match=r"must have numbers only\. Received: .* in row 0, column 1"
    ):
        _ = found.x[0]


def test_a_value_is_refused_where_float32_cannot_hold_it(tmp_path: Path) -> None:
    path = written(tmp_path / "data.csv", "y,a\n0,1.5\n16777217,16777217\n1,1e300\n")
    found = data.open(path)
    assert found.x[0].tolist() == [1.5]
    with pytest.raises(InputError, match=r"Received: '16777217' in row 1, column 0 \(y\)"):
        _ = found.x[1]
    with pytest.raises(InputError, match=r"float32 holds\. Received: '1e300' in row 2, column 1"):
        _ = found.x[2]
    wide = data.open(path, dtype="float64")
    assert wide.x.dtype == np.float64 and wide.x[2].tolist() == [1e300]
    assert wide.y[1] == 16777217
    with pytest.raises(InputError, match=r"dtype must be one of float32, float64"):
        data.open(path, dtype="int8")


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_mark_of_utf8_is_no_value(tmp_path: Path, suffix: str) -> None:
    path = written(tmp_path / f"data.csv{suffix}", "\ufeff1,2\n3,4\n")
    assert data.open(path).y[:].tolist() == [1, 3]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("1,2\r3,4\r", "Received: CR alone"),
        ("0;1,5\n1;2,5\n", "decimal commas, as in '1,5'"),
        ("1,2 # one\n3,4\n", "Received: '2 # one' in row 0"),
        ("0,1_000\n1,2_000\n", "1_000"),
    ],
)
def test_numbers_in_another_way_are_named(tmp_path: Path, content: str, told: str) -> None:
    with pytest.raises(InputError, match=re.escape(told)):
        _ = data.open(written(tmp_path / "data.csv", content)).x[:]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('1,2\n3,"4"\n', "'\"4\"' in row 1, column 1; take the quotes away"),
        ('y,a\n"1","2"\n', "'\"1\"' in row 0, column 0 (y); take the quotes away"),
        ('1,"2,000"\n3,"4,000"\n', "'\"2' in row 0, column 1"),
    ],
)
def test_numbers_in_quotes_are_refused_with_what_to_do(
    text: str, told: str, tmp_path: Path
) -> None:
    path = tmp_path / "data.csv"
    path.write_text(text)
    with pytest.raises(InputError) as error, data.open(path) as opened:
        np.asarray(opened["x"])
    assert told in str(error.value)
    assert ("take the" in told) == ("take the" in str(error.value))


def test_a_number_that_is_cut_short_later_is_no_other_number(tmp_path: Path) -> None:
    path = written(tmp_path / "cut.csv", "a,b\n0,1.5\n1,2.25\n")
    with data.open(path) as opened:
        path.write_bytes(path.read_bytes()[:-2])
        with pytest.raises(DataError, match=r"must not change while .* rows 1 to 1"):
            opened.x[1]
        assert opened.x[0].tolist() == [1.5]
