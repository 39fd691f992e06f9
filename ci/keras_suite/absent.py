"""Stand-ins for packages that Keras's tests import and this project does not install.

The test files import them at their head, whatever they test. While the files are collected, an
import of a package that is absent gives a stand-in; a test that then uses one is skipped. Keras
itself never sees a stand-in.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Iterator, MutableSequence, Sequence
from typing import Any

import pytest

_PACKAGES = ("grain", "jax", "pandas", "scipy", "torch")


class _Class(type):
    """A class of an absent package, which can be named, derived from and asked for, not made."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Class(name, (), {"__module__": f"{cls.__module__}.{cls.__name__}"})

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        package = cls.__mro__[-2].__module__.partition(".")[0]
        pytest.skip(f"{package} is not installed")


class _Module(types.ModuleType):
    __path__: MutableSequence[str] = []  # noqa: RUF012 - a package, of no folder

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Class(name, (), {"__module__": self.__name__})


class _Finder:
    """Finds and loads the stand-ins of *packages*."""

    def __init__(self, packages: Sequence[str]) -> None:
        self._packages = packages

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] in self._packages:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]
        return None

    def create_module(self, spec: Any) -> types.ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing: it has no contents."""


@contextlib.contextmanager
def stand_ins(packages: Sequence[str] = _PACKAGES) -> Iterator[None]:
    """The context in which test files are imported, with stand-ins for *packages*."""
    absent = [name for name in packages if importlib.util.find_spec(name) is None]
    finder = _Finder(absent)
    sys.meta_path.append(finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.partition(".")[0] in absent]:
            del sys.modules[name]
