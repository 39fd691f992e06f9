"""A process of test_fork_server: it says what it has, and then waits for its end or ends."""

import json
import os
import signal
import sys
import tempfile
from pathlib import Path

found = {
    "process": os.getpid(),
    "server": os.getppid(),
    "imported": "tensorflow" in sys.modules,
    "arguments": sys.argv[1:],
    "temporary": tempfile.gettempdir(),
    "given": os.environ.get("GIVEN", ""),
    "directory": str(Path.cwd()),
    "finds_first": sys.path[0],
    "cores": sorted(os.sched_getaffinity(0)),
}
print(json.dumps(found), flush=True)
if sys.argv[1] == "waits":
    signal.pause()
sys.exit(int(sys.argv[2]))
