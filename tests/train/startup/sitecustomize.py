"""Starts a rank, or a plain script, by a fork from a process that has imported TensorFlow.

Python imports this module first, in every process that has its folder on the path. A rank whose
environment names a fork server asks it for a fork, as a newcomer of ``matex run --respawn`` does,
instead of importing TensorFlow once more; where there is none yet, it starts as ever. So does
``python -m tests.train.plain_script``, which is no rank.
"""

import os
import sys

_rank = "PMIX_RANK" in os.environ
_forks = ["-m", "matex" if _rank else "tests.train.plain_script"]
_is_forked = sys.orig_argv[1:3] == _forks
_address = os.environ.pop("TEST_FORK_SERVER", "") if _rank or _is_forked else ""
if _address and _is_forked:
    from contextlib import suppress
    from importlib.util import module_from_spec, spec_from_file_location
    from pathlib import Path

    # By its path: its package would import what a rank needs.
    _path = Path(__file__).resolve().parents[3] / "matex" / "fork_server" / "client.py"
    _spec = spec_from_file_location("fork_client", _path)
    assert _spec is not None
    assert _spec.loader is not None
    _client = module_from_spec(_spec)
    _spec.loader.exec_module(_client)
    with suppress(EOFError, OSError):
        os._exit(_client.forked(sys.orig_argv[1:], _address))
