"""netCDF-4, which is HDF5, by netCDF4; scipy and pandas do not read it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np

from ci.readers.cases.case import Case, Members

__all__ = ["CASES", "netcdf", "variables"]

ROWS = np.random.default_rng(0).normal(size=(24, 5)).astype("f4")


def variables(path: Path) -> Members:
    """Variables of numbers by full name, as netCDF4 gives them: scaled, and masked where missing.

    None for what is no rows of numbers.
    """
    with netCDF4.Dataset(path) as file:
        return _variables(file, "")


def _variables(group: Any, prefix: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, variable in group.variables.items():
        kind = variable.datatype
        enum = isinstance(kind, netCDF4.EnumType)
        plain = enum or (isinstance(kind, np.dtype) and kind.kind in "fiub")
        rows = plain and variable.shape and variable.shape[0]
        try:
            found[f"{prefix}{name}"] = variable[...] if rows else None
        except TypeError:  # a scale that is no number
            found[f"{prefix}{name}"] = None
    for name, inner in group.groups.items():
        found |= _variables(inner, f"{prefix}{name}/")
    return found


def netcdf(
    name: str, fill: Callable[[Any], Any], *, word: str = "", file: str = "data.nc",
    format: str = "NETCDF4", coordinates: bool = True,
) -> Case:  # fmt: skip
    """A case in which *fill* writes into a new file with the dimensions row (24) and column (5).

    Each has a variable of its name, unless the case is without *coordinates*.
    """

    def write(path: Path) -> None:
        with netCDF4.Dataset(path, "w", format=format) as opened:
            for dimension, size in (("row", 24), ("column", 5)):
                opened.createDimension(dimension, size)
                if coordinates:
                    places = opened.createVariable(dimension, "f8", (dimension,))
                    places[:] = np.linspace(-90, 90, size)
            fill(opened)

    return Case(name, file, write, variables, word)


def packed(
    name: str, dtype: str, attributes: dict[str, Any], *, raw: Any = None, fill: Any = None,
    format: str = "NETCDF4", word: str = "",
) -> Case:  # fmt: skip
    """A variable of *dtype* with *attributes* and the stored values *raw*, shape (24,)."""

    def write(file: Any) -> None:
        variable = file.createVariable("x", dtype, ("row",), fill_value=fill)
        variable.setncatts(attributes)
        variable.set_auto_maskandscale(False)
        variable[:] = np.arange(24) * 5 if raw is None else raw

    return netcdf(name, write, format=format, word=word)


def _plain(file: Any, **how: Any) -> None:
    file.createVariable("x", "f4", ("row", "column"), **how)[:] = ROWS


def _unlimited(file: Any) -> None:
    file.createDimension("time", None)
    file.createVariable("x", "f8", ("time", "column"))[:] = np.ones((7, 5)) * np.arange(5)
    file.createVariable("time", "i4", ("time",))[:] = np.arange(3)  # four are never written


def _groups(file: Any) -> None:
    _plain(file)
    inner = file.createGroup("model").createGroup("run")
    inner.createVariable("y", "i2", ("row",))[:] = np.arange(24)


def _strings(file: Any) -> None:
    file.createVariable("names", str, ("row",))[:] = np.array(["a"] * 24, object)
    _plain(file)


def _chars(file: Any) -> None:
    file.createVariable("names", "S1", ("row", "column"))[:] = np.full((24, 5), b"a")
    _plain(file)


def _enum(file: Any) -> None:
    kind = file.createEnumType("u1", "kind", {"clear": 0, "cloud": 1})
    file.createVariable("x", kind, ("row",))[:] = np.arange(24) % 2


def _compound(file: Any) -> None:
    kind = file.createCompoundType(np.dtype([("a", "f4"), ("b", "i4")]), "point")
    file.createVariable("points", kind, ("row",))[:] = np.zeros(24, [("a", "f4"), ("b", "i4")])
    _plain(file)


def _scalar(file: Any) -> None:
    file.createVariable("crs", "i4")[...] = 4326
    _plain(file)


def _times(file: Any) -> None:
    time = file.createVariable("times", "f8", ("row",), fill_value=-1.0)
    time.units = "seconds since 1970-01-01"
    time[:] = 1.7e9 + np.arange(24)


_FILLED = np.where(np.arange(24) % 6 == 1, -99, np.arange(24))

CASES = [
    netcdf("plain", _plain),
    netcdf("chunked and deflated", lambda file: _plain(
        file, zlib=True, complevel=4, shuffle=True, chunksizes=(5, 2))),
    netcdf("fletcher32", lambda file: _plain(file, fletcher32=True)),
    netcdf("zstandard", lambda file: _plain(file, compression="zstd"), word="filter|zstd"),
    netcdf("quantized", lambda file: _plain(file, zlib=True, significant_digits=2)),
    netcdf("big-endian", lambda file: _plain(file, endian="big")),
    netcdf("dimensions without variables", _plain, coordinates=False),
    netcdf("an unlimited dimension, half written", _unlimited),
    netcdf("groups", _groups),
    netcdf("strings", _strings, word="number|string"),
    netcdf("characters", _chars, word="number|char|S1"),
    netcdf("an enum", _enum),
    netcdf("a compound", _compound, word="number|compound"),
    netcdf("a scalar", _scalar),
    netcdf("float64 seconds with a fill value", _times),
    packed("float64 values with a fill value", "f8", {}, raw=np.pi * np.arange(24) * 1e9,
           fill=-1.0),
    netcdf("classic model", _plain, format="NETCDF4_CLASSIC"),
    netcdf("named .h5", _plain, file="data.h5"),
    packed("scale and offset in float64", "i2", {"scale_factor": 0.01, "add_offset": 273.15}),
    packed("scale and offset in float32", "i2",
           {"scale_factor": np.float32(0.01), "add_offset": np.float32(273.15)}),
    packed("scale alone", "i2", {"scale_factor": 0.5}),
    packed("offset alone", "u1", {"add_offset": -40.0}),
    packed("int32 with a fine scale", "i4", {"scale_factor": 1e-7}, raw=np.arange(24) + 10**9),
    packed("scale, offset and fill", "i2", {"scale_factor": 0.1, "add_offset": 3.0}, raw=_FILLED,
           fill=-99),
    packed("scale as a string", "i2", {"scale_factor": "0.1"}, word="scale_factor"),
    packed("_Unsigned", "i1", {"_Unsigned": "true"}, raw=np.arange(24) * 10 - 120, fill=-1),
    packed("_Unsigned and scale", "i1", {"_Unsigned": "true", "scale_factor": 0.5},
           raw=np.arange(24) * 10 - 120),
    packed("missing_value", "f4", {"missing_value": np.float32(-99)}, raw=_FILLED),
    packed("missing_value of another type", "f4", {"missing_value": -99}, raw=_FILLED),
    packed("several missing_values", "f4", {"missing_value": np.array([-99, 4], "f4")},
           raw=_FILLED),
    packed("NaN as the fill value", "f4", {}, raw=np.where(_FILLED < 0, np.nan, _FILLED),
           fill=np.nan),
    packed("integers with a fill value", "i4", {}, raw=_FILLED, fill=-99, word="fill|missing"),
    packed("integers with a missing_value", "i4", {"missing_value": np.int32(-99)}, raw=_FILLED,
           word="fill|missing"),
    packed("floats never written", "f4", {},
           raw=np.where(_FILLED < 0, netCDF4.default_fillvals["f4"], _FILLED)),
    packed("integers never written", "i4", {},
           raw=np.where(_FILLED < 0, netCDF4.default_fillvals["i4"], _FILLED),
           word="fill|missing"),
    packed("valid_range", "f4", {"valid_range": np.array([0, 20], "f4")}),
    packed("valid_min and valid_max", "i2", {"valid_min": np.int16(5), "valid_max": np.int16(50)},
           word="valid|missing"),
    packed("valid_range and scale", "i2",
           {"valid_range": np.array([0, 100], "i2"), "scale_factor": 0.5}),
]  # fmt: skip
