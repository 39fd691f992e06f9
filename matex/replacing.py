"""Replacement of attributes of Python's, TensorFlow's and Keras's modules and classes.

``docs/design/replacements.md`` has a row for each, which a test compares with the calls.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType
from typing import Any

__all__ = ["replace", "replace_everywhere", "replaced"]

_NONE = object()


def replace(owner: Any, name: str, new: Any) -> None:
    """Replace an attribute of *owner*, a module or class, for the rest of the process. Local.

    Raises:
        AttributeError: there is none of this *name*.
    """
    getattr(owner, name)
    setattr(owner, name, new)


@contextlib.contextmanager
def replaced(owner: Any, name: str, new: Any) -> Iterator[None]:
    """Context in which an attribute of *owner*, a module or class, is *new*, on all threads. Local.

    An attribute that a class inherits is inherited again afterwards, a static method static.

    Raises:
        AttributeError: there is none of this *name*.
    """
    own = vars(owner).get(name, _NONE)
    replace(owner, name, new)
    try:
        yield
    finally:
        if own is _NONE:
            delattr(owner, name)
        else:
            setattr(owner, name, own)


def replace_everywhere(
    package: str, functions: Mapping[Callable[..., Any], Callable[..., Any]]
) -> None:
    """Replace functions wherever a module of *package* refers to them, permanently. Local.

    Args:
        package: name of an imported package.
        functions: new functions by the old ones.
    """
    for module_name, module in list(sys.modules.items()):
        if module_name.partition(".")[0] == package:
            for name, value in list(vars(module).items()):
                # By its type: isinstance() would load modules that are loaded once they are used.
                if type(value) is FunctionType and value in functions:
                    replace(module, name, functions[value])
