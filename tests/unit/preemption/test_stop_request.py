"""Stop requests of a rank, and the sign of life it gives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import matex
from ci.patience import patience
from matex.errors import StopRequested
from matex.launcher.job import Job
from matex.launcher.mpiexec import Mpiexec, MpiexecKind
from matex.preemption.exits import STATUS, PreemptedExit
from matex.preemption.stop_request import CLOCK, StopRequest, described, margin_s
from matex.records.launcher_protocol.heartbeat_file import FILE, HeartbeatFile, Sign, read_sign

ROOT = Path(matex.__file__).parents[1]

LISTENER = """
import os, signal, sys
from matex.preemption.stop_request import StopRequest
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a shell's background
stop_request = StopRequest()
stop_request.listen()
assert stop_request.code == 0
for number in map(int, sys.argv[1:]):
    os.kill(os.getpid(), number)
print(stop_request.code, flush=True)
"""


def listener(*numbers: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", LISTENER, *map(str, numbers)],
        cwd=ROOT, capture_output=True, text=True, timeout=patience(60), check=False,
    )  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT])
def test_a_signal_is_noted_and_ends_nothing(number: signal.Signals) -> None:
    done = listener(number, signal.SIGUSR1)
    assert (done.returncode, done.stdout) == (0, f"{int(number)}\n")
    assert described(number) == number.name


OWN = """
import _thread, os, signal
from matex.preemption.stop_request import StopRequest
from matex.process import own_interrupts

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a shell's background
elsewhere = os.kill
stop_request = StopRequest()
stop_request.listen()
own_interrupts.install(stop_request)
for interrupt in (
    lambda: os.kill(os.getpid(), signal.SIGINT),
    lambda: signal.raise_signal(signal.SIGINT),
    _thread.interrupt_main,
):
    try:
        interrupt()
        [n for n in range(9)]
    except KeyboardInterrupt:
        print("as in plain Python")
assert stop_request.code == 0
elsewhere(os.getpid(), signal.SIGINT)
assert stop_request.code == signal.SIGINT
signal.signal(signal.SIGINT, lambda *_: print("handled by the script"))
os.kill(os.getpid(), signal.SIGINT)
"""


def test_a_script_may_interrupt_itself() -> None:
    done = subprocess.run(
        [sys.executable, "-c", OWN],
        cwd=ROOT, capture_output=True, text=True, timeout=patience(60), check=False,
    )  # fmt: skip
    said = [*["as in plain Python"] * 3, "handled by the script"]
    assert (done.stderr, done.stdout.splitlines()) == ("", said)


def test_a_second_interrupt_ends_the_process_at_once() -> None:
    done = listener(signal.SIGINT, signal.SIGINT)
    assert (done.returncode, done.stdout) == (1, "")


def test_a_signal_that_the_script_answers_itself_is_left_to_it() -> None:
    answered = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: answered.append(number))
    others = {n: signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)}
    try:
        stop_request = StopRequest()
        stop_request.listen()
        os.kill(os.getpid(), signal.SIGUSR1)
        assert (answered, stop_request.code) == ([signal.SIGUSR1], 0)
    finally:
        signal.signal(signal.SIGUSR1, before)
        for number, handler in others.items():
            signal.signal(number, handler)


FORKING = """
import os, signal, time
from matex.preemption.stop_request import StopRequest
StopRequest().listen()
child = os.fork()
if child == 0:
    while True:
        signal.pause()
os.kill(child, signal.SIGTERM)
print(os.WTERMSIG(os.waitpid(child, 0)[1]))
"""


def test_a_signal_ends_a_child_that_was_forked() -> None:
    """A pool of processes ends its workers so, and waits for their end."""
    done = subprocess.run(
        [sys.executable, "-c", FORKING],
        cwd=ROOT, capture_output=True, text=True, timeout=patience(60), check=False,
    )  # fmt: skip
    assert done.stdout == f"{int(signal.SIGTERM)}\n"


def test_only_the_main_thread_can_listen() -> None:
    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=StopRequest().listen)
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_clock_tells_before_the_time_is_over() -> None:
    assert StopRequest(0.0).code == 0
    assert StopRequest(3600.0).code == 0
    assert StopRequest(0.0).ends_s is None
    assert StopRequest(3600.0).ends_s == pytest.approx(time.time() + 3600, abs=5)
    stop_request = StopRequest(60.0)
    assert stop_request.code == 0
    stop_request.note_save(30.0)  # a checkpoint takes so long that there is no time to lose
    assert stop_request.code == CLOCK
    assert described(CLOCK) == "the wall time is over"


def test_the_margin_is_in_proportion_and_leaves_time_to_save() -> None:
    assert margin_s(30, 0) == 3
    assert margin_s(86_400, 0) == 30
    assert margin_s(86_400, 10) == 50


def test_where_nobody_asks_a_signal_ends_the_loop_once() -> None:
    before = {n: signal.signal(n, signal.SIG_DFL) for n in (signal.SIGUSR1, signal.SIGTERM)}
    try:
        stop_request = StopRequest()
        stop_request.listen(interrupts=False)
        stop_request.raise_in_handler(True)
        with pytest.raises(StopRequested, match=r"make a matex\.Checkpoint and call its step\(\)"):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGUSR1)  # while it comes to its end
        assert stop_request.code == signal.SIGTERM
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_leaving_is_no_error_of_the_script() -> None:
    assert not isinstance(PreemptedExit(resumable=True), Exception)
    assert PreemptedExit(resumable=True).code == STATUS == 75
    assert PreemptedExit(resumable=False).code == 1


def test_a_pulse_says_which_step_is_made(tmp_path: Path) -> None:
    assert read_sign(tmp_path) == Sign(-1, 0)
    pulse = HeartbeatFile(tmp_path)
    assert read_sign(tmp_path) == Sign(-1, 0)
    pulse.beat(123)
    first = read_sign(tmp_path)
    pulse.beat(123)
    assert (first.step, read_sign(tmp_path).step) == (123, 123)
    assert read_sign(tmp_path) != first
    (tmp_path / FILE).write_text("12")  # seen half-written
    assert read_sign(tmp_path) == Sign()
    HeartbeatFile(None).beat(1)


def test_signs_of_life_cost_a_thousandth_of_the_time_at_most(tmp_path: Path) -> None:
    """A write of 2 ms, a step every 100 ms: after the first ones, only one in 20 is written."""
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 0.002
        return now

    pulse = HeartbeatFile(tmp_path, clock)
    seen = set()
    for step in range(1000):
        now += 0.1
        pulse.beat(step)
        seen.add(read_sign(tmp_path).step)
    assert seen >= set(range(200))
    assert 35 <= len(seen) - 200 <= 45


def test_one_slow_write_does_not_silence_a_rank(tmp_path: Path) -> None:
    """A write that a busy disk holds up for 1 s: the next sign comes soon, and not in 1,000 s."""
    now, write_s = 0.0, 0.0

    def clock() -> float:
        nonlocal now
        now += write_s
        return now

    pulse = HeartbeatFile(tmp_path, clock)
    for step in range(300):
        write_s = 1.0 if step == 250 else 0.0
        now += 0.1
        pulse.beat(step)
        assert step - read_sign(tmp_path).step <= 21


FAMILY = """
import os, subprocess, sys
inner = [sys.executable, "-c", "import sys; print('up', flush=True); sys.stdin.read()"]
# One that left the session, and whose parent is gone before it.
child = subprocess.Popen(inner, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         start_new_session=True)
child.stdout.readline()
with open(sys.argv[1] + ".part", "w") as file:
    file.write(str(child.pid))
os.replace(sys.argv[1] + ".part", sys.argv[1])
child.wait()
"""


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(
    ("kind", "number"), [(MpiexecKind.OPEN_MPI, signal.SIGINT), (MpiexecKind.HYDRA, signal.SIGKILL)]
)
def test_a_job_is_ended_with_all_that_came_of_it(
    kind: MpiexecKind, number: signal.Signals, tmp_path: Path
) -> None:
    note = tmp_path / "pid"
    job = Job(Mpiexec(sys.executable, kind), [sys.executable, "-c", FAMILY, str(note)], os.environ)
    try:
        while not note.exists():
            assert not job.wait(0.05), "it ended by itself"
        child = int(note.read_text())
        assert is_alive(child)
    finally:
        job.end()
    while is_alive(child):  # killed, and about to be taken away
        time.sleep(0.01)
    assert job.status == -number
