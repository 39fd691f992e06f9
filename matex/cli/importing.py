"""Import of a user's own module, whose classes a saved model names."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ft.error_text import in_one_line
from matex.errors import InputError

__all__ = ["import_by_name", "unheard_import"]


@contextlib.contextmanager
def unheard_import() -> Iterator[None]:
    """Import TensorFlow inside, whose own lines on standard error are left out. Local.

    Where the import fails they are written, as they may say why.
    """
    sys.stderr.flush()
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as kept:
        os.dup2(kept.fileno(), 2)
        try:
            yield
        except BaseException:
            kept.seek(0)
            os.write(terminal, kept.read())
            raise
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)


def import_by_name(name: str) -> None:
    """Import the module *name*, or the Python file of that path. Local.

    Raises:
        InputError: it cannot be found or read. Its own exceptions pass.
    """
    path = Path(name)
    try:
        if path.suffix != ".py":
            sys.path.insert(0, "")
            importlib.import_module(name)
            return
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        sys.path.insert(0, str(path.parent))
        spec.loader.exec_module(module)
    except (ImportError, OSError, SyntaxError) as error:
        reason = in_one_line(error)
        raise InputError(
            f"a module that can be imported is wanted. Received: {name} ({reason})"
        ) from error
