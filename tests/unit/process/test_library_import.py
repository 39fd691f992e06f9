"""The import of TensorFlow: it leaves out what is loaded once it is used, and no text is twice."""

import gc
import subprocess
import sys
import typing
from pathlib import Path

import pytest

from matex.process.library_import import LazyFinder, quick


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package of two modules, which say in a file of its folder that they were run."""
    folder = tmp_path / "slow_package"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    for name in ("slow", "quick"):
        (folder / f"{name}.py").write_text(
            f"import pathlib\npathlib.Path(r'{tmp_path}', '{name}.ran').touch()\nvalue = 7\n"
        )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "slow_package"
    for name in [name for name in sys.modules if name.startswith("slow_package")]:
        del sys.modules[name]


def test_a_late_module_runs_when_something_of_it_is_used(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "meta_path", [LazyFinder([f"{package}.slow"]), *sys.meta_path])
    from slow_package import quick as other
    from slow_package import slow

    assert (tmp_path / "quick.ran").exists()
    assert not (tmp_path / "slow.ran").exists()
    assert slow.value == other.value == 7
    assert (tmp_path / "slow.ran").exists()


def test_a_module_that_is_missing_is_missing_at_once(package: str) -> None:
    finder = LazyFinder([f"{package}.absent"])
    assert finder.find_spec(f"{package}.absent", [str(Path(__file__).parent)]) is None


def test_the_collector_and_the_finders_are_as_they_were() -> None:
    finders = list(sys.meta_path)
    with pytest.raises(ZeroDivisionError), quick():
        assert not gc.isenabled()
        raise ZeroDivisionError
    assert gc.isenabled()
    assert sys.meta_path == finders


def test_a_type_that_is_named_by_the_same_text_is_compiled_once() -> None:
    with quick():
        first, second, other = (typing.ForwardRef(text) for text in ("int", "int", "str"))
        with pytest.raises(SyntaxError):
            typing.ForwardRef("not a type")
    assert first.__forward_code__ is second.__forward_code__
    assert eval(first.__forward_code__) is int and eval(other.__forward_code__) is str
    later = typing.ForwardRef("int")
    assert later.__forward_code__ is not first.__forward_code__


SCRIPT = """
import sys
from matex.process import library_import
with library_import.quick():
    import keras
from matex.keras_hooks import files
around = lambda original, given: original(**given)
files.replace_file_functions(dict.fromkeys(["save", "fetch", "directory", "folder"], around))
assert "matplotlib.backend_bases" not in sys.modules, "Matplotlib was loaded as a whole"
import matplotlib
matplotlib.use("Agg")
from matplotlib import pyplot as plt
from keras.src.visualization import plot_image_gallery
assert plot_image_gallery.plt.subplots is plt.subplots
plt.plot([1, 2]), plt.savefig(sys.argv[1])
"""


def test_a_script_draws_with_what_keras_did_not_load(tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    subprocess.run([sys.executable, "-c", SCRIPT, str(picture)], check=True, timeout=120)
    assert picture.stat().st_size > 1000
