"""Fault plans as CSV: what is written is read again, and what is wrong is named with its line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ft
from matex.cli import main

FAULTS = [
    *("kill:rank=2,step=40", "kill:rank=1+3,step=40,at=recovery", "node:host=b,step=41"),
    *("slow:rank=0,step=50,factor=2.5,steps=50", "bitflip:rank=1,time=7,target=optimizer,bit=3"),
    *("stop:rank=4,time=12.25", "raise:rank=5,event=checkpoint,count=3", "nan:rank=0,event=epoch"),
]


@given(st.lists(st.sampled_from(FAULTS), unique=True))
def test_what_is_written_is_read_again(texts: list[str]) -> None:
    faults = [ft.parse_fault(text) for text in sorted(texts, key=FAULTS.index)]
    text = ft.write_plan(faults, comment="of a test,\nin two lines")
    again = ft.read_plan(text.splitlines(), name="plan.csv")
    assert list(again) == faults
    assert [fault.text for fault in again] == [fault.text for fault in faults]


def test_columns_may_come_in_any_order_and_cells_be_padded() -> None:
    text = "at,rank , kind,step\n,2,kill, 4\n\n# between\nrecovery,0, kill,4\n"
    first, second = ft.read_plan(text.splitlines(), name="p")
    assert (first.text, first.where) == ("kill:rank=2,step=4", "p, line 2")
    assert (second.text, second.where) == ("kill:rank=0,step=4,at=recovery", "p, line 5")


BAD = {
    "": "plan.csv: a first line with the names of the columns is wanted",
    "# nothing\n": "Received: nothing",
    "rank,step\n": "plan.csv, line 1: columns are step, time, event",
    "kind,rank,colour\n": "Received: kind,rank,colour",
    "kind,rank,rank\n": "each at most once",
    "kind,rank,step\nkill,1\n": "plan.csv, line 2: 3 cells are wanted, as in the first line. "
    "Received: 2",
    "kind,rank,step\nkill,1,2,3\n": "line 2: 3 cells are wanted, as in the first line. Received: 4",
    "kind,rank,step\nkill,1,2\nexplode,1,2\n": "line 3: fault 'explode:rank=1,step=2': kind must",
    "kind,rank,step\n,1,2\n": "line 2: fault ':rank=1,step=2': kind must be one of",
    "kind,rank,step\nkill,1,x\n": "line 2: fault 'kill:rank=1,step=x': step must be a whole number",
    "kind,rank,step\nkill,1,\n": "line 2: fault 'kill:rank=1': step is missing",
    "kind,rank,step,at\nkill,1,2,lunch\n": "line 2: fault 'kill:rank=1,step=2,at=lunch': at must",
    "kind,rank,step\nkill,1,9\nkill,2,8\n": "line 3: faults must come in the order of their step. "
    "Received: step=8 after 9",
    "kind,rank,time\nkill,1,9\nkill,2,8.5\n": "line 3: faults must come in the order of their time",
    'kind,rank,step\nkill,"1,2\n': "line 2: a line of CSV is wanted. Received: 'kill,\"1,2'",
}


@pytest.mark.parametrize("text", BAD)
def test_a_bad_plan_is_refused_with_line_and_reason(text: str) -> None:
    with pytest.raises(ft.FaultSyntaxError) as caught:
        ft.read_plan(text.splitlines(), name="plan.csv")
    assert BAD[text] in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_rank_out_of_range_is_named_with_its_line() -> None:
    plan = ft.read_plan(["kind,rank,step", "kill,1,2", "kill,4,3"], name="plan.csv")
    with pytest.raises(ft.FaultSyntaxError, match=r"^plan.csv, line 3: fault 'kill:rank=4,step=3'"):
        ft.check_faults(plan, ranks=4)
    with pytest.raises(ft.FaultSyntaxError, match=r"^plan.csv, line 3: more faults than ranks"):
        ft.check_faults(
            ft.read_plan(["kind,rank,step", "kill,1,2", "kill,0,3"], name="plan.csv"), ranks=2
        )


def test_sample_show_and_run_understand_each_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--mtbf", "2h", "--shape", "0.7", "--ranks", "64", "--nodes", "8", "--hours", "24"]
    assert main(["faults", "sample", *words]) == 0
    plan = capsys.readouterr().out
    assert main(["faults", "sample", *words]) == 0
    assert capsys.readouterr().out == plan
    path = tmp_path / "plan.csv"
    path.write_text(plan)
    assert main(["faults", "show", str(path), "--ranks", "64"]) == 0
    shown = capsys.readouterr().out.splitlines()
    count = len(plan.splitlines()) - 2  # the comment and the columns
    assert shown[count].startswith(f"{count} faults: ")
    script = tmp_path / "train.py"
    script.touch()
    run = ["run", "--dry-run", "--inject-file", str(path), str(script)]
    assert main([*run[:2], "-n", "64", *run[2:]]) == 0
    assert f"--inject-file {path}" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main([*run[:2], "-n", "3", *run[2:]])
    assert f"{path}, line " in capsys.readouterr().err
