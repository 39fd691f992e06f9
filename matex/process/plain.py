"""A process that runs a script by plain Keras, for ``matex run --compare``.

    python -m matex.process.plain LOGS SEED [-m] SCRIPT [arguments of the script]

The only hook into Keras is a callback that records the logs of each epoch. Seeds are those of a
rank. Files that the script writes are discarded, because the run has written them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from matex.files import intercept, keras_files, library_files
from matex.files.discarded import DiscardedFiles
from matex.keras_hooks.callbacks import note_epochs
from matex.process import tensorflow_files
from matex.process.libraries import seed_libraries
from matex.process.program import run_program

__all__ = ["run_plainly"]


def run_plainly(logs: Path, seed: int, program: list[str]) -> None:
    """Run *program* as ``python`` would, and record the logs of its epochs.

    Args:
        logs: file of JSON lines, an object of numbers for each epoch.
        seed: seed of the libraries, as on the ranks.
        program: words of the command line after ``python``.
    """
    seed_libraries(seed)
    logs = logs.absolute()

    def note(numbers: dict[str, float]) -> None:
        with logs.open("a") as file:
            file.write(f"{json.dumps(numbers)}\n")

    note_epochs(note)
    files = DiscardedFiles((logs.parent,))
    for module in (intercept, library_files, tensorflow_files, keras_files):
        installer: Any = module
        installer.install(files)
    try:
        is_module = program[0] == "-m"
        name, *arguments = program[is_module:]
        run_program(name, arguments, module=is_module)
    finally:
        files.finish()


if __name__ == "__main__":
    run_plainly(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
