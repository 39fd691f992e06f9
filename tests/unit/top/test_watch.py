"""``matex top`` on report directories as runs write them, and on what is none."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ci.patience import patience
from matex.cli import main
from matex.errors import InputError
from matex.records.events import keep_room
from matex.top.find import newest_report
from matex.top.watch import Watch, pause_after
from tests.unit.top.events import event, fit, lines, progress, starts


@pytest.fixture
def report(tmp_path: Path) -> Path:
    made = tmp_path / "out"
    made.mkdir()
    known = [*starts(2, host="elsewhere"), fit(0.5)]
    known.append(progress(1.0, 9, samples=640, ranks=2))
    (made / "events.jsonl").write_text(lines(known))
    return made


def append(report: Path, text: str) -> None:
    with (report / "events.jsonl").open("a") as file:
        file.write(text)


def test_once_prints_plain_text(report: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["top", str(report), "--once"]) == 0
    printed = capfd.readouterr().out
    assert "training with 2 of 2 ranks" in printed
    assert "\x1b" not in printed
    assert all(line == line.rstrip() for line in printed.splitlines())


def test_lines_in_a_pipe_are_as_long_as_they_need(
    report: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "m" * 90
    append(report, lines([*starts(1, host="h" * 90), event(2.0, 0, "epoch", epoch=0, step=1)]))
    append(report, lines([event(2.0, 0, "epoch", epoch=1, step=2, **{name: 0.25})]))
    monkeypatch.delenv("COLUMNS", raising=False)
    assert main(["top", str(report), "--once"]) == 0
    printed = capfd.readouterr().out
    assert name in printed and "h" * 90 in printed and "0.25" in printed
    assert "memory" in printed
    monkeypatch.setenv("COLUMNS", "40")  # as watch(1) does
    assert main(["top", str(report), "--once"]) == 0
    printed = capfd.readouterr().out
    assert name not in printed and "0.25" in printed
    assert "waits ms" not in printed


def test_colours_that_are_asked_for_do_not_come_into_a_pipe(
    report: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert main(["top", str(report)]) == 0  # without --once, as there is no terminal
    assert "\x1b" not in capfd.readouterr().out


def test_screens_that_take_longer_come_less_often() -> None:
    assert pause_after(0.0003) == 0.5
    assert pause_after(0.006) == pytest.approx(4.0)
    assert pause_after(3.0) == 10.0


def test_any_encoding_will_do(report: Path) -> None:
    append(report, lines([event(2.0, 0, "epoch", epoch=0, step=16, loss=0.2, größe=1.5)]))
    done = subprocess.run(
        [sys.executable, "-m", "matex", "top", report, "--once"],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True, text=True, check=True, timeout=patience(60),
    )  # fmt: skip
    assert "gr??e" in done.stdout
    assert "#_" in done.stdout  # the loss


def test_the_newest_report_is_meant(
    report: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    older = report.parent / "a" / "older"
    older.mkdir(parents=True)
    (older / "events.jsonl").write_text(lines(starts(1)))
    os.utime(older / "events.jsonl", (1, 1))
    monkeypatch.chdir(report.parent)
    assert newest_report(Path()) == Path("out")
    assert main(["top", "--once"]) == 0
    assert capfd.readouterr().out.startswith("run      training with 2 of 2")


def test_a_report_far_below_is_not_looked_for(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b" / "c" / "d"
    deep.mkdir(parents=True)
    (deep / "events.jsonl").write_text("")
    with pytest.raises(InputError, match="none in"):
        newest_report(tmp_path)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("absent", "absent, which is absent; name the DIR of --report"),
        ("file", "file, which is no directory"),
        ("empty", "no events yet"),
        ("begun", "no events yet"),
        (".", "which has no events.jsonl; name the DIR of --report"),
    ],
)
def test_bad_input_gets_one_line(
    name: str, said: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    (tmp_path / "begun").mkdir()
    keep_room(tmp_path / "begun")
    with pytest.raises(SystemExit) as ended:
        main(["top", str(tmp_path / name), "--once"])
    printed = capfd.readouterr()
    assert (ended.value.code, printed.out) == (2, "")
    assert said in printed.err
    assert printed.err.count("\n") == 1


def test_a_run_that_begins_anew_is_another(report: Path) -> None:
    watch = Watch(report)
    watch.look()
    assert watch.view.step == 10
    (report / "events.jsonl").write_text(lines(starts(1, at_s=50.0)))
    watch.look()
    assert (watch.view.step, set(watch.view.ranks)) == (0, {0})


def test_a_run_that_the_launcher_ended_is_over(report: Path) -> None:
    watch = Watch(report)
    watch.look()
    assert watch.view.status == "training"
    (report / "summary.json").write_text(json.dumps({"status": "failed", "steps": 12}))
    assert watch.look().summary["steps"] == 12
    assert watch.view.status == "failed"


@pytest.mark.parametrize("content", [b"", b"[1, 2]", b'{"status": "fin', b"\xff", b"null"])
def test_a_summary_that_is_no_json_object_is_none(report: Path, content: bytes) -> None:
    (report / "summary.json").write_bytes(content)
    watch = Watch(report)
    assert watch.look().summary == {}
    assert watch.view.status == "training"


def test_damaged_files_are_shown_as_far_as_they_go(
    report: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    append(report, '{"time_s": "1003", "rank": 0, "event": "progress"}\n')
    append(report, '{"time_s": 1003.0, "rank": 0, "event": "progress"}\n')
    wrong = {"status": "finished", "steps": "x", "wall_s": [], "step_s": {}, "samples_used": None}
    (report / "summary.json").write_text(json.dumps(wrong))
    assert main(["top", str(report), "--once"]) == 0
    printed = capfd.readouterr().out
    assert "finished with 2 of 2 ranks, took 1.0 s" in printed
    assert "samples  640" in printed


def test_the_summary_of_an_earlier_run_ends_no_later_one(report: Path) -> None:
    """Ranks that mpiexec started leave it there until their own end."""
    (report / "summary.json").write_text(json.dumps({"status": "finished", "steps": 12}))
    os.utime(report / "summary.json", (1, 1))
    watch = Watch(report)
    assert watch.look().summary == {}
    assert watch.view.status == "training"


def test_a_sign_of_life_is_heard(report: Path) -> None:
    watch = Watch(report)
    (report / "progress").write_text(f"{12:019} {3:019}\n")
    silent_s = watch.look().silent_s
    assert silent_s > 1e6  # these events are of long ago
    (report / "progress").write_text(f"{13:019} {4:019}\n")
    around = watch.look()
    assert (around.step, around.silent_s) == (13, 0.0)


@pytest.mark.timeout(120)
def test_a_live_screen_follows_the_run_and_ends_by_ctrl_c(report: Path) -> None:
    whole = lines([event(2.0, 0, "nonfinite", step=12, ranks=[1], policy="skip")])
    append(report, whole[:20])
    mine, theirs = pty.openpty()
    top = subprocess.Popen([sys.executable, "-m", "matex", "top", report], stdout=theirs)
    os.close(theirs)
    try:
        _read_until(mine, "training with 2 of 2 ranks")
        append(report, whole[20:])
        _read_until(mine, "computed a NaN")
        top.send_signal(signal.SIGINT)
        _read_until(mine, "\x1b[?1049l")  # the terminal is as it was
        assert top.wait(timeout=patience(30)) == 0
    finally:
        top.kill()
        top.wait()
        os.close(mine)


@pytest.mark.timeout(120)
def test_a_live_screen_waits_for_a_run(tmp_path: Path) -> None:
    mine, theirs = pty.openpty()
    top = subprocess.Popen([sys.executable, "-m", "matex", "top", tmp_path], stdout=theirs)
    os.close(theirs)
    try:
        _read_until(mine, "no events yet")
        append(tmp_path, lines(starts(1)))
        _read_until(mine, "training with 1 of 1 rank")
        top.send_signal(signal.SIGINT)
        _read_until(mine, "\x1b[?1049l")
        assert top.wait(timeout=patience(30)) == 0
    finally:
        top.kill()
        top.wait()
        os.close(mine)


def _read_until(terminal: int, text: str) -> None:
    """Read what is shown on *terminal* until there is *text*; the test's time limit bounds it."""
    seen = ""
    while text not in seen:
        seen += os.read(terminal, 65536).decode(errors="replace")
