"""Faults as text: what is understood, and what each mistake is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ft
from ft.faults import EVENTS, KINDS, PHASES, TARGETS, Fault, check_faults, parse_fault


@st.composite
def written(draw: st.DrawFn) -> tuple[str, Fault]:
    """A fault as text, its keys in any order, and what it means."""
    kind = draw(st.sampled_from(sorted(KINDS)))
    ranks = draw(st.lists(st.integers(0, 99), min_size=1, max_size=4, unique=True))
    wanted = {"kind": kind, "ranks": tuple(ranks)}
    keys = {"rank": "+".join(map(str, ranks))}
    when = draw(st.sampled_from(["step", "time", "event"]))
    if when == "step":
        wanted["step"] = draw(st.integers(0, 10**6))
        keys["step"] = str(wanted["step"])
    elif when == "time":
        wanted["time_s"] = draw(st.integers(0, 10**7) | st.floats(0, 10**4)) / 1000
        keys["time"] = repr(wanted["time_s"])
    else:
        wanted |= {
            "event": draw(st.sampled_from(EVENTS)),
            "count": draw(st.integers(1, 9)),
            "at": "",
        }
        keys |= {"event": wanted["event"], "count": str(wanted["count"])}
    if kind == "node":
        del keys["rank"]
        wanted |= {
            "ranks": (),
            "host": draw(st.from_regex(r"[a-z][a-z0-9.-]{0,9}", fullmatch=True)),
        }
        keys["host"] = wanted["host"]
    phases = [p for p in PHASES if kind != "hang" or not p.startswith("in-")]
    if "at" in KINDS[kind][1] and draw(st.booleans()):
        keys["at"] = wanted["at"] = draw(st.sampled_from(phases))
    if kind == "slow" and draw(st.booleans()):
        wanted |= {"factor": draw(st.integers(8, 800)) / 8, "steps": draw(st.integers(0, 50))}
        keys |= {"factor": repr(wanted["factor"]), "steps": str(wanted["steps"])}
    if kind == "bitflip" and draw(st.booleans()):
        wanted |= {"target": draw(st.sampled_from(TARGETS)), "bit": draw(st.integers(0, 31))}
        keys |= {"target": wanted["target"], "bit": str(wanted["bit"])}
    parts = draw(st.permutations([f"{key}={value}" for key, value in keys.items()]))
    return f"{kind}:{','.join(parts)}", Fault(**wanted)


@given(written())
def test_what_is_written_is_what_is_meant(case: tuple[str, Fault]) -> None:
    text, wanted = case
    fault = parse_fault(text)
    assert fault == wanted
    assert fault.text == text
    assert parse_fault(fault.written()) == fault


def test_a_fault_has_defaults() -> None:
    fault = parse_fault("slow:rank=0,step=5")
    assert (fault.at, fault.factor, fault.steps, fault.host) == ("compute", 2.0, 1, "")


def test_the_examples_of_the_documentation_are_understood() -> None:
    assert parse_fault("kill:rank=1+3,step=40,at=recovery").ranks == (1, 3)
    assert parse_fault("slow:rank=0,step=5,factor=3,steps=50").factor == 3.0
    assert parse_fault("node:host=b,step=20").host == "b"


BAD = {
    "explode:rank=0,step=1": "kind must be one of kill, segv, exit, raise, stop, hang, slow, nan, "
    "bitflip, node. "
    "Received: 'explode'",
    "": "Received: ''",
    "KILL:rank=0,step=1": "Received: 'KILL'",
    "kill:rank=0,step=1,factor=2": "keys of kill are at, count, event, rank, step, time, each "
    "once. "
    "Received: 'factor=2'",
    "node:rank=0,host=a,step=1": "keys of node are at, count, event, host, step, "
    "time, each once. Received: 'rank=0'",
    "kill:rank=0,rank=1,step=1": "each once. Received: 'rank=1'",
    "kill:rank=0,step": "Received: 'step'",
    "kill:rank=0,step=1,": "Received: ''",
    "kill": "step is missing; wanted KIND:key=value,... such as kill:rank=2,step=40",
    "kill:": "step is missing",
    "kill:rank=0": "step is missing",
    "kill:step=3": "rank is missing",
    "node:step=3": "host is missing",
    "kill:rank=0,step=1,at=lunch": f"at must be one of {', '.join(PHASES)}. Received: 'lunch'",
    "kill:rank=0,step=-1": "step must be a whole number from 0. Received: '-1'",
    "kill:rank=0,step=1.5": "step must be a whole number from 0. Received: '1.5'",
    "kill:rank=a,step=1": "rank must be a whole number from 0. Received: 'a'",
    "kill:rank=0+-2,step=1": "rank must be a whole number from 0. Received: '-2'",
    "kill:rank=,step=1": "rank is empty",
    "kill:rank=1+,step=1": "rank must be a whole number from 0. Received: ''",
    "kill:rank=+,step=1": "rank must be a whole number from 0. Received: ''",
    "kill:rank=1+1,step=1": "rank must name each rank once, such as 1+3. Received: '1+1'",
    "kill:rank=1+01,step=1": "rank must name each rank once, such as 1+3. Received: '1+01'",
    "slow:rank=0,step=1,factor=fast": "factor must be a number from 0. Received: 'fast'",
    "slow:rank=0,step=1,factor=0.5": "factor must be at least 1. Received: 0.5",
    "slow:rank=0,step=1,factor=nan": "factor must be a number from 0. Received: 'nan'",
    "kill:rank=0,step=1,time=2": "one of step, time and event says when. Received: step and time",
    "kill:rank=0,time=soon": "time must be a number from 0. Received: 'soon'",
    "kill:rank=0,time=nan": "time must be a number from 0. Received: 'nan'",
    "kill:rank=0,time=inf": "time must be a number from 0. Received: 'inf'",
    "kill:rank=0,event=lunch": f"event must be one of {', '.join(EVENTS)}. Received: 'lunch'",
    "kill:rank=0,event=epoch,count=0": "count must be a whole number from 1. Received: '0'",
    "kill:rank=0,step=1,count=2": "count goes with event. Received: step",
    "hang:rank=0,step=1,at=in-exchange": "at=in-exchange is for stop",
    "hang:rank=0,step=1,at=in-consensus": "at=in-consensus is for stop",
    "bitflip:rank=0,step=1,target=soul": "target must be one of weights, optimizer.",
    "bitflip:rank=0,step=1,bit=32": "bit must be a whole number from 0 to 31. Received: '32'",
    "node:host=,step=1": "host is empty",
    "slow:rank=0,step=1,steps=few": "steps must be a whole number from 0. Received: 'few'",
}


@pytest.mark.parametrize("text", BAD, ids=lambda text: text or "empty")
def test_a_mistake_is_named_in_one_line(text: str) -> None:
    with pytest.raises(ft.FaultSyntaxError) as caught:
        parse_fault(text)
    message = str(caught.value)
    assert message.startswith(f"fault {text!r}: ")
    assert BAD[text] in message
    assert "\n" not in message


def test_a_syntax_error_is_a_usage_error_and_a_value_error() -> None:
    assert issubclass(ft.FaultSyntaxError, ft.UsageError)
    assert issubclass(ft.UsageError, ValueError)


@pytest.mark.parametrize("kind", KINDS)
def test_what_takes_the_rank_and_what_does_not(kind: str) -> None:
    where = "host=a" if kind == "node" else "rank=0"
    assert parse_fault(f"{kind}:{where},step=0").lethal == (kind not in ("slow", "nan", "bitflip"))


def test_whom_a_fault_hits() -> None:
    fault = parse_fault("kill:rank=1+3,step=0")
    assert [rank for rank in range(5) if fault.hits(rank, "here")] == [1, 3]
    node = parse_fault("node:host=b,step=0")
    assert node.hits(0, "b")
    assert not node.hits(0, "a")


GOOD_PLANS = [
    ([], 1),
    (["kill:rank=0,step=1"], 2),
    (["kill:rank=0+1,step=1", "exit:rank=2,step=9"], 4),
    (["kill:rank=1,step=1", "segv:rank=1,step=2"], 2),
    (["nan:rank=0,step=1", "slow:rank=1,step=1"], 2),
    (["nan:rank=0,step=1"], 1),
    (["node:host=b,step=20"], 2),
]


@pytest.mark.parametrize(("plan", "ranks"), GOOD_PLANS)
def test_a_plan_that_leaves_somebody_is_accepted(plan: list[str], ranks: int) -> None:
    check_faults(map(parse_fault, plan), ranks=ranks)


BAD_PLANS = [
    (["kill:rank=2,step=1"], 2, "rank must be below the number of ranks, 2. Received: rank=2"),
    (["nan:rank=0+7,step=1"], 4, "fault 'nan:rank=0+7,step=1': rank must be below"),
    (["kill:rank=0,step=1"], 1, "at least one rank of 1 must survive"),
    (["kill:rank=0,step=1", "stop:rank=1,step=5"], 2, "faults that end ranks [0, 1]"),
    (["raise:rank=0+1+2,step=1"], 3, "more faults than ranks"),
]


@pytest.mark.parametrize(("plan", "ranks", "said"), BAD_PLANS)
def test_a_plan_that_cannot_be_is_refused(plan: list[str], ranks: int, said: str) -> None:
    with pytest.raises(ft.FaultSyntaxError) as caught:
        check_faults([parse_fault(text) for text in plan], ranks=ranks)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_host_that_no_rank_is_on_is_refused_where_hosts_are_known() -> None:
    plan = [parse_fault("node:host=b,step=20"), parse_fault("kill:rank=1,step=2")]
    check_faults(plan, ranks=2)
    check_faults(plan, ranks=2, hosts={"a", "b"})
    said = "fault 'node:host=b,step=20': host must be one that ranks are on: a, c. Received: host=b"
    with pytest.raises(ft.FaultSyntaxError) as caught:
        check_faults(plan, ranks=2, hosts={"c", "a"})
    assert str(caught.value) == said
