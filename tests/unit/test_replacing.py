"""Attributes are replaced for the process or a context, and put back as they were."""

from __future__ import annotations

import sys
import types

import pytest

from matex.replacing import replace, replace_everywhere, replaced


class Above:
    """A class whose method another inherits."""

    def own(self) -> str:
        return "own"

    @staticmethod
    def static() -> str:
        return "static"


class Below(Above):
    """A class that inherits its methods."""


def test_a_method_is_put_back_after_an_exception() -> None:
    with pytest.raises(ValueError, match="ends"), replaced(Above, "own", lambda self: "new"):
        assert Below().own() == "new"
        raise ValueError("ends")
    assert Above().own() == "own"


def test_an_inherited_method_is_inherited_again() -> None:
    with replaced(Below, "own", lambda self: "new"):
        assert (Below().own(), Above().own()) == ("new", "own")
    assert "own" not in vars(Below)


def test_a_static_method_is_static_again() -> None:
    with replaced(Above, "static", staticmethod(lambda: "new")):
        assert Above().static() == "new"
    assert Above().static() == "static"


def test_a_missing_attribute_is_refused() -> None:
    with pytest.raises(AttributeError):
        replace(Above, "missing", None)
    assert not hasattr(Above, "missing")


def test_a_function_is_replaced_at_all_places_of_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def old() -> None: ...

    def new() -> None: ...

    places = {name: types.ModuleType(name) for name in ("made", "made.within", "made_otherwise")}
    for name, module in places.items():
        monkeypatch.setitem(sys.modules, name, module)
        vars(module)["function"] = old
    replace_everywhere("made", {old: new})
    found = [vars(module)["function"] for module in places.values()]
    assert found == [new, new, old]
