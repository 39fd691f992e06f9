"""The meaning of a netCDF variable's values by its attributes (NetCDF Users Guide, Appendix A).

::

    value = stored * scale_factor + add_offset, NaN where stored is a mark for "no value"

Marks are ``_FillValue``, each ``missing_value``, values outside ``valid_range`` (or ``valid_min``
and ``valid_max``), and the library's value for unwritten elements. ``_Unsigned`` says whether
integers have a sign, whatever their type. netCDF4-python masks the same values, but applies limits
of unpacked values to the packed ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from matex.data.rows import Rows

__all__ = ["ATTRIBUTES", "Meaning", "Unpacked", "fill_of", "meaning_of"]

ATTRIBUTES = (
    "_Unsigned", "scale_factor", "add_offset", "_FillValue", "missing_value",
    "valid_range", "valid_min", "valid_max",
)  # fmt: skip
# The netCDF library's values for unwritten elements; none for bytes, whose values all occur.
_UNWRITTEN = {
    "i2": -32767, "u2": 65535, "i4": -(2**31) + 1, "u4": 2**32 - 1,
    "i8": -(2**63) + 2, "u8": 2**64 - 2, "f4": 9.969209968386869e36, "f8": 9.969209968386869e36,
}  # fmt: skip
_UNWRITTEN_BYTES = {"i1": -127, "u1": 255}


class Marks(NamedTuple):
    """The marks for "no value".

    Attributes:
        values: stored values that are marks.
        low, high: limits below and above which all values are marks; None for no limit.
        unpacked: whether *low* and *high* are for unpacked values, not for stored ones.
        unwritten: value by which the netCDF library marks unwritten elements; None for none.
    """

    values: tuple[Any, ...]
    low: Any
    high: Any
    unpacked: bool
    unwritten: Any

    @property
    def told(self) -> bool:
        """Whether the file itself says that such values may occur."""
        return bool(self.values) or self.low is not None or self.high is not None


class Meaning(NamedTuple):
    """Conversion of stored values to their meaning.

    Attributes:
        read_as: type that stored values are taken for.
        dtype: type of the values that are returned.
        scale, offset: factor and summand of packed values; None for unpacked ones.
        marks: marks that become NaN, if *dtype* is floating point.
        words: note on the conversion for the user, "" for none.
    """

    read_as: np.dtype[Any]
    dtype: np.dtype[Any]
    scale: Any
    offset: Any
    marks: Marks
    words: str


class Unpacked(Rows):
    """Rows of a variable, converted to their meaning."""

    def __init__(self, stored: Rows, meaning: Meaning) -> None:
        self._stored = stored
        self._meaning = meaning
        self.shape = stored.shape
        self.dtype = meaning.dtype
        self.costly = stored.costly

    def rows(self, indices: np.ndarray) -> np.ndarray:
        _, dtype, scale, offset, marks, _ = self._meaning
        stored = self._stored.rows(indices).view(self._meaning.read_as)
        values = stored.astype(dtype)
        if dtype.kind != "f":
            return values
        if scale is not None:
            values *= dtype.type(scale)
        if offset is not None:
            values += dtype.type(offset)
        limited = values if marks.unpacked else stored
        absent = np.zeros(values.shape, bool)
        for mark in (*marks.values, marks.unwritten):
            if mark is not None:
                absent |= stored == mark
        if marks.low is not None:
            absent |= limited < marks.low
        if marks.high is not None:
            absent |= limited > marks.high
        values[absent] = np.nan
        return values


def meaning_of(
    stored: np.dtype[Any], attributes: Mapping[str, Any], *, prefilled: bool
) -> Meaning | None:
    """Meaning of values stored as *stored*; None if no conversion is needed.

    Packed values have the type that NumPy gives ``stored * scale_factor + add_offset``, and
    float64 where that is an integer. Integers with marks become floating point for the sake of
    NaN: float32 up to 16 bits, float64 up to 32, which hold them exactly. Those of 64 bits
    stay, and so do all where only what was never written is marked: the words then say by what.

    Args:
        attributes: attributes of ATTRIBUTES that the variable has: numbers as arrays, text as str.
        prefilled: whether the netCDF library marked unwritten elements.

    Raises:
        ValueError: an attribute makes no sense, so the values cannot be known.
    """
    stored = stored.newbyteorder("=")
    if stored.kind not in "fiu":
        return None
    read_as = _taken_for(stored, attributes.get("_Unsigned"))
    scale, offset = (_factor(attributes, name) for name in ("scale_factor", "add_offset"))
    packing = [each.dtype for each in (scale, offset) if each is not None]
    marks = _marks(stored, read_as, attributes, packing, prefilled)
    dtype = _given_as(read_as, packing, marks.told)
    changed = bool(packing) or dtype != stored or read_as != stored
    if not changed and not marks.told and marks.unwritten is None:
        return None
    words = _words(stored, read_as, dtype, packing, marks)
    return Meaning(read_as, dtype, scale, offset, marks, words)


def fill_of(stored: np.dtype[Any], attributes: Mapping[str, Any]) -> Any:
    """The value that the netCDF library gives for values of type *stored* that are in no file."""
    for value in _numbers(attributes, "_FillValue"):
        return value.astype(stored)
    return stored.type({**_UNWRITTEN, **_UNWRITTEN_BYTES}.get(stored.str[1:], 0))


def _given_as(read_as: np.dtype[Any], packing: list[Any], told: bool) -> np.dtype[Any]:
    if packing:
        dtype = np.result_type(read_as, *packing)
        return dtype if dtype.kind == "f" else np.dtype(np.float64)
    if read_as.kind == "f" or not told or read_as.itemsize == 8:
        return read_as
    return np.dtype(np.float32 if read_as.itemsize <= 2 else np.float64)


def _taken_for(stored: np.dtype[Any], unsigned: Any) -> np.dtype[Any]:
    meant = str(unsigned).lower()
    if stored.kind == "i" and meant == "true":
        return np.dtype(f"u{stored.itemsize}")
    if stored.kind == "u" and meant == "false":
        return np.dtype(f"i{stored.itemsize}")
    return stored


def _factor(attributes: Mapping[str, Any], name: str) -> Any:
    """Scale or offset as a NumPy scalar of its own type; None if absent."""
    if name not in attributes:
        return None
    value = attributes[name]
    if isinstance(value, str) or value.size != 1 or value.dtype.kind not in "fiu":
        raise ValueError(f"its {name} must be a number. Received: {value}")
    return value.reshape(-1)[0]


# ---------------------------------------------------------------- marks


def _marks(
    stored: np.dtype[Any],
    read_as: np.dtype[Any],
    attributes: Mapping[str, Any],
    packing: list[Any],
    prefilled: bool,
) -> Marks:
    values = [
        mark
        for name in ("_FillValue", "missing_value")
        for value in _numbers(attributes, name)
        if (mark := _as_stored(value, stored, read_as)) is not None
    ]
    limits = _numbers(attributes, "valid_range")
    if len(limits) != 2:
        ends = (_numbers(attributes, name) for name in ("valid_min", "valid_max"))
        limits = [end[0] if len(end) == 1 else None for end in ends]
    # Limits of a wider type than the stored one, such as the scale's, are for unpacked values.
    wide = [end for end in limits if end is not None and end.dtype.kind == "f"]
    unpacked = bool(packing) and stored.kind != "f" and bool(wide)
    low, high = limits if unpacked else (_limit(end, stored, read_as) for end in limits)
    unwritten = None
    if prefilled and read_as == stored and "_FillValue" not in attributes:
        unwritten = _UNWRITTEN.get(stored.str[1:])
    unwritten = None if unwritten is None else stored.type(unwritten)
    return Marks(tuple(dict.fromkeys(values)), low, high, unpacked, unwritten)


def _numbers(attributes: Mapping[str, Any], name: str) -> list[Any]:
    value = attributes.get(name)
    if value is None or isinstance(value, str) or value.dtype.kind not in "fiu":
        return []
    return list(value.reshape(-1))


def _as_stored(value: Any, stored: np.dtype[Any], read_as: np.dtype[Any]) -> Any:
    """An attribute as the value that is stored for it, in the type it is taken for.

    None where no stored value can be it, as with NaN, and with 1e20 for 16 bits.
    """
    if np.isnan(value):
        return None
    if stored.kind == "f":
        with np.errstate(over="ignore"):
            return stored.type(value)
    if not np.isfinite(value) or value != int(value):
        return None
    for dtype in (stored, read_as):
        if np.iinfo(dtype).min <= int(value) <= np.iinfo(dtype).max:
            return np.array(int(value), dtype).view(read_as)[()]
    return None


def _limit(value: Any, stored: np.dtype[Any], read_as: np.dtype[Any]) -> Any:
    if value is None or np.isnan(value):
        return None
    exact = _as_stored(value, stored, read_as)
    return value if exact is None else exact


# ---------------------------------------------------------------- words


def _words(
    stored: np.dtype[Any],
    read_as: np.dtype[Any],
    dtype: np.dtype[Any],
    packing: list[Any],
    marks: Marks,
) -> str:
    words = []
    if read_as != stored:
        words.append(f"taken for {read_as} as _Unsigned says")
    if packing:
        words.append(f"unpacked to {dtype}")
    if dtype.kind == "f":
        if marks.told:
            words.append(f"{_which(marks)} read as NaN")
    elif marks.told:
        words.append(f"{_which(marks)} mean no value, and are given as they are")
    elif marks.unwritten is not None:
        words.append(f"a value never written reads as the fill value {marks.unwritten}")
    return "; ".join(words)


def _which(marks: Marks) -> str:
    words = [str(value) for value in marks.values]
    of = "unpacked values" if marks.unpacked else "values"
    if marks.low is not None:
        words.append(f"{of} below {marks.low}")
    if marks.high is not None:
        words.append(f"{of} above {marks.high}")
    return ", ".join(words)
