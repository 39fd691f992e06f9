"""Faults go off once, where and when planned; the lethal ones in a process of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import ft
from ci.patience import patience
from ft.faults import PHASES, Fault, parse_fault
from ft.injector import Injector

ROOT = Path(ft.__file__).parents[1]


class Recorder:
    """An injector that has fired nothing yet, and the faults it has reported since."""

    def __init__(self, *texts: str, rank: int = 1, host: str = "here") -> None:
        self.fired: list[str] = []
        self.injector = Injector(
            map(parse_fault, texts),
            rank=rank,
            host=host,
            before=lambda fault: self.fired.append(fault.kind),
        )


def test_a_fault_fires_in_its_phase_of_its_step_and_only_once() -> None:
    one = Recorder("raise:rank=1,step=3,at=validation")
    reached = []
    for step in range(6):
        one.injector.step = step
        for phase in PHASES:
            try:
                one.injector.at(phase)
            except ft.InjectedFault as error:
                assert "raise:rank=1,step=3,at=validation" in str(error)
                reached.append((step, phase))
    assert reached == [(3, "validation")]
    assert one.fired == ["raise"]
    assert one.injector.unfired == ()
    one.injector.step = 3
    one.injector.at("validation")


def test_the_number_of_the_step_may_be_that_of_the_program() -> None:
    steps = [2]
    injector = Injector([parse_fault("raise:rank=1,step=3")], rank=1, step=lambda: steps[-1])
    injector.at("compute")
    steps.append(3)
    with pytest.raises(ft.InjectedFault):
        injector.at("compute")


def test_faults_of_others_never_fire_here() -> None:
    one = Recorder("raise:rank=0+2,step=0", "node:host=there,step=0")
    one.injector.at("compute")
    assert one.injector.unfired == ()
    assert one.fired == []


def test_what_has_not_fired_is_known() -> None:
    one = Recorder("kill:rank=1,step=100", "nan:rank=1,step=2", "kill:rank=0,step=1")
    assert [fault.kind for fault in one.injector.unfired] == ["kill", "nan"]


def test_nan_and_bitflip_wait_until_they_are_taken_and_are_taken_once() -> None:
    one = Recorder("nan:rank=1,step=2", "bitflip:rank=1,step=2,target=optimizer,bit=3")
    assert one.injector.take("nan") == []
    one.injector.step = 2
    one.injector.at("compute")
    assert one.fired == []
    assert one.injector.take("bitflip", "weights") == []
    assert [fault.kind for fault in one.injector.take("nan")] == ["nan"]
    assert [fault.bit for fault in one.injector.take("bitflip", "optimizer")] == [3]
    assert one.fired == ["nan", "bitflip"]
    assert one.injector.take("nan") == one.injector.take("bitflip") == []


def test_a_fault_by_time_strikes_in_its_phase_once_the_time_has_come() -> None:
    now = [100.0]
    faults = [parse_fault("raise:rank=1,time=2.5,at=validation")]
    injector = Injector(faults, rank=1, clock=lambda: now[0])
    for seconds in (100.0, 102.4):
        now[0] = seconds
        injector.at("validation")
    now[0] = 103.0
    injector.at("compute")
    with pytest.raises(ft.InjectedFault):
        injector.at("validation")
    injector.at("validation")


def test_a_fault_by_event_strikes_with_it_or_in_the_phase_after_it() -> None:
    one = Recorder("raise:rank=1,event=epoch,count=2", "raise:rank=1,event=epoch,at=compute")
    for phase in PHASES:
        one.injector.at(phase)
    one.injector.heard("checkpoint")
    one.injector.heard("epoch")
    with pytest.raises(ft.InjectedFault):
        one.injector.at("compute")
    with pytest.raises(ft.InjectedFault, match="count=2"):
        one.injector.heard("epoch")
    one.injector.heard("epoch")
    assert one.injector.unfired == ()


def test_a_fault_that_goes_off_with_the_record_of_another_goes_off_once() -> None:
    faults = map(parse_fault, ["slow:rank=1,step=0", "slow:rank=1,event=fault,factor=3"])
    fired: list[str] = []

    def record(fault: Fault) -> None:
        fired.append(fault.text)
        injector.heard("fault")

    injector = Injector(faults, rank=1, before=record)
    injector.at("compute")
    assert fired == ["slow:rank=1,step=0", "slow:rank=1,event=fault,factor=3"]


def test_the_recovery_of_a_step_may_come_in_the_next_one() -> None:
    one = Recorder("raise:rank=1,step=4,at=recovery")
    for step in (3, 6):
        one.injector.step = step
        one.injector.at("recovery")
    one.injector.step = 5
    with pytest.raises(ft.InjectedFault):
        one.injector.at("recovery")


def test_slow_stretches_computation_while_it_lasts() -> None:
    # A factor so large that a stretched step cannot be mistaken for any other.
    one = Recorder("slow:rank=1,step=2,factor=101,steps=2")
    stretched = []
    for step in range(6):
        one.injector.step = step
        one.injector.at("compute")
        stretched.append(seconds_of_drag(one.injector) >= 0.1)
    assert one.fired == ["slow"]
    assert stretched == [False, False, True, True, False, False]


def seconds_of_drag(injector: Injector) -> float:
    started = time.perf_counter()
    injector.drag(0.001)
    return time.perf_counter() - started


def test_during_says_whether_something_was_armed() -> None:
    one = Recorder("kill:rank=1,step=5,at=in-exchange")
    assert not one.injector.during("in-exchange")
    assert not Recorder().injector.during("in-exchange")
    assert [fault.kind for fault in one.injector.unfired] == ["kill"]


PROGRAM = """
import sys, threading
import ft

def record(fault):
    print("before", fault.kind, flush=True)

injector = ft.Injector([ft.parse_fault(sys.argv[1])], rank=1, host="here", before=record)
injector.step = 7
if sys.argv[2] == "at":
    injector.at("compute")
else:
    assert injector.during("in-exchange")
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join()
print("still here")
"""


def strike(text: str, how: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, text, how],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_a_rank_that_hangs_is_silent_and_alive() -> None:
    process = strike("hang:rank=1,step=7", "at")
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "before hang\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
    finally:
        process.kill()
        process.communicate()


EFFECTS = {
    "kill:rank=1,step=7": -signal.SIGKILL,
    "node:host=here,step=7": -signal.SIGKILL,
    "segv:rank=1,step=7": -signal.SIGSEGV,
    "exit:rank=1,step=7": 1,
    "raise:rank=1,step=7": 1,
}


@pytest.mark.parametrize("text", EFFECTS)
def test_a_lethal_fault_is_recorded_and_then_strikes(text: str) -> None:
    out, err = (process := strike(text, "at")).communicate(timeout=patience(30))
    assert process.returncode == EFFECTS[text]
    assert out == f"before {text.partition(':')[0]}\n"
    assert ("InjectedFault: injected fault" in err) == text.startswith("raise")


def test_an_exit_by_a_fault_is_told_from_one_of_the_program() -> None:
    one = Recorder("exit:rank=1,step=0")
    with pytest.raises(SystemExit) as caught:
        one.injector.at("compute")
    assert isinstance(caught.value, ft.InjectedExit)
    assert caught.value.code == 1
    assert str(caught.value) == "injected fault 'exit:rank=1,step=0'"


@pytest.mark.parametrize("kind", ["kill", "segv", "exit"])
def test_a_fault_during_a_call_strikes_from_a_thread(kind: str) -> None:
    process = strike(f"{kind}:rank=1,step=7,at=in-exchange", "during")
    out, _ = process.communicate(timeout=patience(30))
    assert process.returncode in (-signal.SIGKILL, -signal.SIGSEGV)
    assert out == f"before {kind}\n"


def test_a_slow_rank_is_not_ended_by_being_slow_during_a_call() -> None:
    process = strike("slow:rank=1,step=7,at=in-exchange", "during")
    out, _ = process.communicate(timeout=patience(30))
    assert process.returncode == 0
    assert out == "before slow\nstill here\n"


def test_a_stopped_rank_is_silent_and_alive() -> None:
    process = strike("stop:rank=1,step=7", "at")
    try:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        assert os.WSTOPSIG(status) == signal.SIGSTOP
        os.kill(process.pid, signal.SIGCONT)
        out, _ = process.communicate(timeout=patience(30))
        assert out == "before stop\nstill here\n"
    finally:
        process.kill()
        process.wait()


def test_a_fault_is_a_value() -> None:
    assert parse_fault("kill:step=1,rank=0") == parse_fault("kill:rank=0,step=1")
    assert hash(Fault(kind="kill", ranks=(0,), step=1)) == hash(parse_fault("kill:rank=0,step=1"))
