"""Real crashes and real full or read-only file systems, each in a process of its own."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

import checkpoints
from checkpoints import Store
from ci.patience import patience

ROOT = Path(checkpoints.__file__).parents[1]

PREAMBLE = """
import json, os, resource, signal, subprocess, sys
import numpy as np
from checkpoints import Snapshot, StorageError, Store
directory = sys.argv[1]

def snapshot(step, size=64):
    return Snapshot(weights={"x": np.full(size, step, np.float32)}, cursor={"step": step})
"""

# Dies by SIGKILL before the n-th line of the code that touches the disk, for every n.
KILL_AT_EVERY_LINE = """
def die_before(line):
    count = 0
    def trace(frame, event, arg):
        nonlocal count
        if not frame.f_code.co_filename.endswith(("checkpoints/files.py", "checkpoints/store.py")):
            return None
        if event == "line":
            count += 1
            if count == line:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace
    sys.settrace(trace)

store = Store(directory, keep_last=2)
store.save(snapshot(0))
report = []
for line in range(1, 10_000):
    child = os.fork()
    if child == 0:
        die_before(line)
        Store(directory, keep_last=2).save(snapshot(line))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    skipped = []
    path, found = store.newest_valid(on_skip=lambda path, error: skipped.append(str(error)))
    assert found.weights["x"].tolist() == [found.step] * 64
    report.append([found.step, os.WIFSIGNALED(status), skipped])
    if not os.WIFSIGNALED(status):
        break
    store.save(snapshot(line))  # and what the dead did not remove
store.prepare()
print(json.dumps({"report": report, "left": sorted(os.listdir(directory))}))
"""

WRITE_FOREVER = """
store = Store(directory)
found = store.newest_valid()
step = found[1].step if found else 0
while True:
    step += 1
    print(step, flush=True)
    store.save(snapshot(step, 300_000))
"""

LIMITED = """
store = Store(directory)
store.save(snapshot(1))
before = sorted(os.listdir(directory))
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
try:
    store.save(snapshot(2, 100_000))
except StorageError as error:
    message = str(error)
descriptors = sorted(os.listdir("/proc/self/fd"))
assert sorted(os.listdir(directory)) == before, os.listdir(directory)
store.save(snapshot(3))
assert sorted(os.listdir("/proc/self/fd")) == descriptors
print(json.dumps([message, store.newest_valid()[1].step]))
"""

FULL_DISK = """
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", directory], check=True)
store = Store(directory, keep_last=1)
store.save(snapshot(1))
free = os.statvfs(directory).f_bfree
for _ in range(3):
    try:
        store.save(snapshot(2, 400_000))
    except StorageError as error:
        message = str(error)
    assert os.statvfs(directory).f_bfree == free
assert os.listdir(directory) == ["step-000000001.h5"], os.listdir(directory)
store.save(snapshot(3))
print(json.dumps([message, store.newest_valid()[1].step]))
"""

READ_ONLY = """
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", directory], check=True)
Store(directory).save(snapshot(1))
subprocess.run(["mount", "-o", "remount,ro", directory], check=True)
store = Store(directory)
try:
    store.save(snapshot(2))
except StorageError as error:
    message = str(error)
print(json.dumps([message, store.newest_valid()[1].step]))
"""


def run(script: str, directory: Path, *prefix: str) -> subprocess.CompletedProcess[str]:
    command = [*prefix, sys.executable, "-c", PREAMBLE + script, str(directory)]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=patience(60), check=False
    )


def test_kill_before_every_line_that_touches_the_disk(tmp_path):
    result = run(KILL_AT_EVERY_LINE, tmp_path)
    assert result.returncode == 0, result.stderr
    outcome = json.loads(result.stdout)
    report = outcome["report"]
    assert len(report) > 40
    # Published or not, never half: what is found is the new one or the one before it.
    for line, (step, killed, skipped) in enumerate(report, start=1):
        assert step in (line - 1, line)
        assert skipped == []
        assert killed == (line < len(report))
    assert {step == line for line, (step, _, _) in enumerate(report, start=1)} == {True, False}
    last = len(report)
    assert outcome["left"] == [f"step-{last - 1:09d}.h5", f"step-{last:09d}.h5"]


def test_kill_at_random_moments_from_outside(tmp_path):
    moments = random.Random(2)
    store, last = Store(tmp_path), 0
    for _ in range(10):
        command = [sys.executable, "-c", PREAMBLE + WRITE_FOREVER, str(tmp_path)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            for _ in range(moments.randrange(1, 12)):
                begun = int(writer.stdout.readline())
            # Somewhere in the middle of writing: a loop of some length, not of some time.
            for _ in range(moments.randrange(200_000)):
                pass
            writer.kill()
            rest = writer.stdout.read().split()
        begun = int(rest[-1]) if rest else begun
        skipped: list[str] = []
        found = store.newest_valid(on_skip=lambda path, _, names=skipped: names.append(path.name))
        if found is None:
            assert (last, begun) == (0, 1)
            continue
        assert found[1].step in (begun - 1, begun)
        assert set(found[1].weights["x"].tolist()) == {float(found[1].step)}
        assert skipped == []
        last = found[1].step
    assert last >= 10
    store.prepare()
    assert [path.name for path in sorted(tmp_path.iterdir())] == [p.name for p in store.list()]


def test_limit_on_file_size_is_one_clear_line_and_leaves_nothing(tmp_path):
    result = run(LIMITED, tmp_path)
    assert result.returncode == 0, result.stderr
    message, step = json.loads(result.stdout)
    assert "File too large. Raise the limit on file sizes" in message
    assert "\n" not in message
    assert step == 3


@pytest.fixture
def own_mounts() -> tuple[str, ...]:
    """A command prefix that gives a process mounts of its own, which end with it."""
    prefix = ("unshare", "--user", "--map-root-user", "--mount")
    probe = "mount -t tmpfs -o size=1m tmpfs /mnt"
    try:
        result = subprocess.run(
            [*prefix, "sh", "-c", probe], capture_output=True, timeout=patience(60), check=False
        )
    except FileNotFoundError:
        pytest.skip("no unshare command here")
    if result.returncode:
        pytest.skip("no mount namespaces for users here")
    return prefix


def test_full_disk_is_one_clear_line_and_keeps_no_space(tmp_path, own_mounts):
    result = run(FULL_DISK, tmp_path, *own_mounts)
    assert result.returncode == 0, result.stderr
    message, step = json.loads(result.stdout)
    assert "No space left on device. Free some space or choose another directory." in message
    assert "\n" not in message
    assert step == 3


def test_read_only_file_system_can_be_read_and_refuses_to_save(tmp_path, own_mounts):
    result = run(READ_ONLY, tmp_path, *own_mounts)
    assert result.returncode == 0, result.stderr
    message, step = json.loads(result.stdout)
    assert "Read-only file system. Choose a directory that is not read-only." in message
    assert step == 1
