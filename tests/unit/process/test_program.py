"""The user's program as ``__main__``: the same as under ``python``, in all that it can see."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import matex
from matex.process.program import file_of

ROOT = Path(matex.__file__).parents[1]

PROGRAM = """
from __future__ import annotations
import atexit, inspect, os, pickle, sys

class Kept:
    pass

main = sys.modules["__main__"]
print(__name__, __file__, __package__, __doc__, type(__loader__).__name__, __builtins__)
print(__spec__ and __spec__.name, vars(main) is globals(), inspect.getsource(Kept).strip())
print(sys.argv, os.path.realpath(sys.path[0]))
value: unknown = 1
print(__annotations__)
atexit.register(lambda: print("pickled", pickle.loads(pickle.dumps(Kept())).__class__))
"""

OURS = """
import os, sys
from matex.process.program import run_program

sys.path[0] = os.getcwd()
name, *arguments = sys.argv[2:] if sys.argv[1] == "-m" else sys.argv[1:]
run_program(name, arguments, module=sys.argv[1] == "-m")
"""

WAYS = {
    "a script": ["folder/script.py", "a", "--b"],
    "a link": ["link.py"],
    "a module": ["-m", "package.module", "a", "-m"],
    "a package": ["-m", "package"],
    "a package that cannot be run": ["-m", "package.inner"],
    "no module": ["-m", "package.none"],
    "no package": ["-m", "none.module"],
    "a module of C": ["-m", "math"],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in (
        "folder/script.py", "package/module.py", "package/__init__.py", "package/__main__.py",
        "package/inner/__init__.py", "package/broken.py",
    ):  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("" if name.endswith("__init__.py") else PROGRAM)
    (tmp_path / "package" / "broken.py").write_text("import missing_module\n")
    (tmp_path / "link.py").symlink_to(tmp_path / "folder" / "script.py")
    return tmp_path


def ran(folder: Path, words: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_a_program_sees_what_python_shows_it(way: str, folder: Path) -> None:
    wanted = ran(folder, WAYS[way])
    found = ran(folder, ["-c", OURS, *WAYS[way]])
    assert found.stdout == wanted.stdout
    assert found.stderr == wanted.stderr
    assert found.returncode == wanted.returncode
    assert bool(wanted.stdout) == (wanted.returncode == 0)


def test_an_error_of_the_package_is_its_own(folder: Path) -> None:
    found = ran(folder, ["-c", OURS, "-m", "package.broken"])
    assert found.stderr.endswith("ModuleNotFoundError: No module named 'missing_module'\n")


def test_an_archive_is_run(folder: Path) -> None:
    with zipfile.ZipFile(folder / "program.zip", "w") as archive:
        archive.writestr("__main__.py", "import sys\nprint(sys.argv, __name__)\n")
    found = ran(folder, ["-c", OURS, "program.zip", "a"])
    assert found.stdout == "['program.zip', 'a'] __main__\n", found.stderr


def test_the_file_of_a_program_is_known_before_it_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(folder))
    assert file_of("package.module", module=True) == folder / "package" / "module.py"
    assert file_of("package", module=True) == folder / "package" / "__main__.py"
    assert file_of("none", module=True) == Path("none")
    assert file_of("package.module") == Path("package.module")
    assert "package" not in sys.modules
