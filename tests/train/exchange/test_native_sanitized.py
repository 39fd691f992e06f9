"""The native exchange's contract under AddressSanitizer and the undefined-behaviour sanitizer."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.train.runs import ROOT, execute

SANITIZE = ("-fsanitize=address,undefined", "-fno-omit-frame-pointer", "-g")

# As find() builds it, into the same name, with more flags; no loading here.
BUILD = """
import dataclasses, pathlib
from matex.exchange import library
made_by = library.recipe()
checked = dataclasses.replace(made_by, flags=(*made_by.flags, *{flags!r}))
library._compile(checked, pathlib.Path({cache!r}) / made_by.name)
"""


def loaded_first() -> str | None:
    """Paths of AddressSanitizer's run time, and of the C++ library, which it must find at once."""
    compiler = shutil.which("g++")
    paths = []
    for name in ("libasan.so", "libstdc++.so.6"):
        asked = [compiler or "true", f"-print-file-name={name}"]
        found = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
        if not Path(found).is_absolute() or not Path(found).exists():
            return None
        paths.append(found)
    return " ".join(paths)


def test_the_contract_holds_without_a_report(tmp_path: Path) -> None:
    preload = loaded_first()
    if preload is None:
        pytest.skip("no g++ with AddressSanitizer here")
    cache = tmp_path / "cache"
    cache.mkdir()
    script = BUILD.format(flags=SANITIZE, cache=str(cache))
    done = execute([sys.executable, "-c", script], directory=tmp_path)
    assert done.returncode == 0, done.stderr
    done = execute(
        [
            sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--with-mpi",
            ROOT / "tests/mpi/test_exchange.py", "-k", "native",
        ],
        directory=ROOT,
        EXCHANGE_TEST_CACHE=str(cache),
        OMPI_MCA_btl="self",  # no launcher: it would leave a segment in /dev/shm
        LD_PRELOAD=preload,
        ASAN_OPTIONS=f"detect_leaks=0:log_path={tmp_path}/report",
        UBSAN_OPTIONS=f"print_stacktrace=1:halt_on_error=0:log_path={tmp_path}/report",
    )  # fmt: skip
    reports = [path.read_text() for path in tmp_path.glob("report*")]
    ours = [text for text in reports if "exchange" in text]
    assert not ours, ours[0]
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert " passed" in done.stdout
