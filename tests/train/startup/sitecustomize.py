"""Starts a rank of a test by a fork from a process that has imported TensorFlow.

Python imports this module first, in every process that has its folder on the path. A rank whose
environment names a fork server asks it for a fork, as a newcomer of ``matex run --respawn`` does,
instead of importing TensorFlow once more; where there is none yet, it starts as ever.
"""

import os
import sys

_address = os.environ.pop("TEST_FORK_SERVER", "") if "PMIX_RANK" in os.environ else ""
if _address and sys.orig_argv[1:3] == ["-m", "matex"]:
    from contextlib import suppress
    from importlib.util import module_from_spec, spec_from_file_location
    from pathlib import Path

    # By its path: its package would import what a rank needs.
    _path = Path(__file__).resolve().parents[3] / "matex" / "run" / "fork_client.py"
    _spec = spec_from_file_location("fork_client", _path)
    assert _spec is not None
    assert _spec.loader is not None
    _client = module_from_spec(_spec)
    _spec.loader.exec_module(_client)
    with suppress(EOFError, OSError):
        os._exit(_client.forked(sys.orig_argv[1:], _address))
