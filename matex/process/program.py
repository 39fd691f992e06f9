"""The user's program as ``__main__``, as in ``python script.py`` or ``python -m module``.

The module stays ``__main__`` after the program has ended, unlike with :mod:`runpy`: functions of
``atexit`` find its classes there, for example to pickle them.
"""

from __future__ import annotations

import builtins
import importlib.util
import io
import pkgutil
import runpy
import sys
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

__all__ = ["file_of", "run_program"]

_MAIN, _MAIN_FILE = "__main__", "__main__.py"


def run_program(script: str | Path, arguments: list[str], *, module: bool = False) -> None:
    """Run *script* with *arguments*, with ``sys`` set as Python does.

    Args:
        script: path of a file; or the name of a module or a package.
        arguments: words after the script on the command line.
        module: whether *script* is the name of a module.

    Raises:
        SystemExit: there is no such module, with Python's message; or the program raises it.
    """
    sys.argv = [str(script), *arguments]
    if module:  # the working directory comes first in sys.path, as for every ``python -m``
        _run(*_of_module(str(script)))
        return
    path = Path(script)
    sys.path.insert(0, str(path.resolve().parent))
    if path.suffix == ".pyc" or pkgutil.get_importer(str(path)) is not None:  # or an archive
        runpy.run_path(str(path), run_name=_MAIN)
    else:
        _run(*_of_script(path.absolute()))


def file_of(script: str | Path, *, module: bool = False) -> Path:
    """File of a program with the arguments of :func:`run_program`; nothing is imported.

    Args:
        script: path of a file; or the name of a module or a package.
        module: whether *script* is the name of a module.

    Returns:
        The path; of a module that has no such file, its name.
    """
    if module:
        *packages, name = str(script).split(".")
        for folder in sys.path:
            for below in ((f"{name}.py",), (name, _MAIN_FILE)):
                path = Path(folder, *packages, *below)
                if path.is_file():
                    return path
    return Path(script)


def _run(main: ModuleType, code: CodeType) -> None:
    vars(main).update(__builtins__=builtins)  # where exec would put their names
    sys.modules[_MAIN] = main
    exec(code, main.__dict__)


def _of_script(path: Path) -> tuple[ModuleType, CodeType]:
    """New module for the file *path*, and the code to run in it."""
    with io.open_code(str(path)) as file:
        code = compile(file.read(), str(path), "exec", dont_inherit=True)
    main = ModuleType(_MAIN)
    loader = SourceFileLoader(_MAIN, str(path))
    vars(main).update(__file__=str(path), __cached__=None, __loader__=loader)
    return main, code


def _of_module(name: str) -> tuple[ModuleType, CodeType]:
    """New module for the module *name*, and the code to run in it.

    Raises:
        SystemExit: there is no such module that can be run.
    """
    spec = _found(name)
    if spec.submodule_search_locations is not None:
        if name == _MAIN or name.endswith(f".{_MAIN}"):
            raise _refused("Cannot use package as __main__ module")
        try:
            return _of_module(f"{name}.{_MAIN}")
        except SystemExit as error:
            raise _refused(
                f"{error}; {name!r} is a package and cannot be directly executed"
            ) from None
    code = None if spec.loader is None else getattr(spec.loader, "get_code", lambda _: None)(name)
    if code is None:
        raise _refused(f"No code object available for {name}")
    main = ModuleType(_MAIN)
    vars(main).update(
        __file__=spec.origin,
        __cached__=spec.cached,
        __loader__=spec.loader,
        __package__=spec.parent,
        __spec__=spec,
    )
    sys.argv[0] = str(spec.origin)
    return main, code


def _found(name: str) -> ModuleSpec:
    """Specification of the module *name*, whose packages are imported.

    Raises:
        SystemExit: there is no such module.
    """
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # out of the package, which imports something else
        what = f"{type(error).__name__}: {error}"
        raise _refused(f"Error while finding module specification for {name!r} ({what})") from None
    if spec is None:
        raise _refused(f"No module named {name}")
    return spec


def _refused(why: str) -> SystemExit:
    return SystemExit(why if why.startswith(sys.executable) else f"{sys.executable}: {why}")
