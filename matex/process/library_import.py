"""Import of TensorFlow, for which every process waits: unneeded parts are postponed.

Of the 4.5 seconds of the import on one core, a tenth is garbage collection, and a fifth is
Matplotlib, if installed: Keras imports it for pictures that few scripts draw. A twentieth compiles
type names in TensorFlow's annotations: 18,000 texts, of which 124 differ.
"""

import contextlib
import functools
import gc
import importlib.util
import sys
import typing
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Final

# Modules that Keras imports at its own import, and uses in functions only.
LOADED_WHEN_USED: Final = ("matplotlib.pyplot", "matplotlib.patches")


class LazyFinder:
    """Finder, for ``sys.meta_path``, of modules that are loaded at first use.

    Args:
        names: full names of the modules; other imports are left to other finders.
    """

    def __init__(self, names: Sequence[str] = LOADED_WHEN_USED) -> None:
        self._names = frozenset(names)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of the module *fullname* with a lazy loader, or None for other modules."""
        if fullname not in self._names:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = importlib.util.LazyLoader(spec.loader)
        return spec


@contextlib.contextmanager
def quick() -> Iterator[None]:
    """Make the imports in the body quick: no collector, no Matplotlib, no text twice. Local.

    The imports make a million permanent objects. The collector would search them for cycles
    repeatedly while they are made, and once more at the end: a third of the processor time of a
    short run. Postponed modules are loaded as usual once a script imports or uses them.

    Example:
        >>> with quick():
        ...     import keras
    """
    finder = LazyFinder()
    collects = gc.isenabled()
    sys.meta_path.insert(0, finder)
    gc.disable()
    # Function that ForwardRef calls; its results cannot be changed, so they can be shared.
    vars(typing)["compile"] = functools.cache(compile)
    try:
        yield
        if collects:
            gc.freeze()
    finally:
        sys.meta_path.remove(finder)
        vars(typing).pop("compile", None)
        if collects:
            gc.enable()
