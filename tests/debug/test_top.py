"""``python -m dhaga top PID``: its keys, what they do, and the terminal that is left as it was."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rich")

from rich.console import Console

import dhaga
from dhaga.__main__ import main
from dhaga.debug import inspect
from dhaga.debug.asked import printable
from dhaga.debug.keys import Keys, keys
from dhaga.debug.screens import Screen
from tests import scripts


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "dhaga"


# ---- keys


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """Both ends of a terminal."""
    ends = pty.openpty()
    yield ends
    for end in ends:
        os.close(end)


@pytest.mark.parametrize(
    ("typed", "named"),
    [
        (b"q/s", ["q", "/", "s"]),
        (b"\x1b[A\x1b[Bj\x1bOA", ["up", "down", "j", "up"]),
        (b"\x1b[5~\x1b[6~\x1b[H\x1b[F", ["page up", "page down", "home", "end"]),
        (b"\r\x7f\x1b", ["enter", "backspace", "escape"]),
        ("äß→".encode(), ["ä", "ß", "→"]),
        (b"\x1b[15~", ["unknown"]),
        (b"\xff\xff\xff\xff\xff", ["unknown"]),
    ],
)
def test_keys_are_named(typed: bytes, named: list[str]) -> None:
    here, there = os.pipe()
    pressed = Keys(here)
    os.write(there, typed)
    assert [pressed.wait(0) for _ in range(len(named) + 1)] == [*named, None]
    os.close(there)
    with pytest.raises(EOFError):
        pressed.wait(0)
    os.close(here)


def test_the_terminal_is_as_it_was_whatever_happens(terminal: tuple[int, int]) -> None:
    _, mine = terminal
    former = termios.tcgetattr(mine)
    with pytest.raises(ZeroDivisionError), keys(mine):
        assert not termios.tcgetattr(mine)[3] & (termios.ECHO | termios.ICANON)
        assert termios.tcgetattr(mine)[3] & termios.ISIG
        assert termios.tcgetattr(mine)[6][termios.VSUSP] == b"\0"
        raise ZeroDivisionError
    assert termios.tcgetattr(mine) == former


# ---- the screen


class Process:
    """Stands for a process that is asked."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)
        self.asked: list[Any] = []

    def ask(self, what: str, **arguments: Any) -> dict[str, Any]:
        self.asked.append((what, *arguments.values()))
        if what == "cancel":
            return {"name": self.names[arguments["ident"] - 1], "cancelled": True}
        if what == "dump":
            return {"text": "\n".join(f"line {number}" for number in range(50))}
        rows = [row(name, number) for number, name in enumerate(self.names, 1) if arguments["filter"] in name]
        counts = {"total": len(self.names), "matching": len(rows), "states": {"WAITING": len(self.names)}}
        return {"pid": 7, "measured": True, "circles": [], "reasons": [["sleep", 3]], "rows": rows, **counts}


def row(name: str, ident: int) -> dict[str, Any]:
    kind = "main code" if name == "main" else "dhaga"
    known = {"ident": ident, "name": name, "kind": kind, "scheduler": "S", "state": "WAITING", "reason": "sleep"}
    return known | {"seconds": 1.0, "share": 0.25, "waits_on": None, "held_by": []}


def screen_of(*names: str) -> Screen:
    screen = Screen(Process(*names), "", "share")
    screen.refresh()
    return screen


def press(screen: Screen, *pressed: str) -> None:
    for key in pressed:
        screen.press(key)


def drawn(screen: Screen, width: int = 100) -> list[str]:
    console = Console(width=width, height=screen.height, file=io.StringIO())
    with console.capture() as capture:
        console.print(screen.draw())
    return [line.rstrip() for line in capture.get().splitlines()]


def asked(screen: Screen) -> list[Any]:
    assert isinstance(screen.line, Process)
    return screen.line.asked


def test_it_shows_counts_rows_and_keys() -> None:
    lines = drawn(screen_of("a", "b"))
    assert lines[0] == "process 7: 2 in all, 2 WAITING"
    assert lines[1] == "wait for 3 sleep"
    assert lines[3].split() == ["ident", "name", "state", "cpu", "waited", "reason", "on", "scheduler"]
    assert lines[4].split() == ["1", "a", "WAITING", "25%", "1.0", "s", "sleep", "S"]
    assert lines[-1].startswith("q quit")


def test_the_filter_counts_as_it_is_typed() -> None:
    screen = screen_of("alpha", "beta", "gamma")
    press(screen, "/", "m", "q", "backspace", "m")
    assert [each[1] for each in asked(screen)] == ["", "m", "mq", "m", "mm"]
    assert [each["name"] for each in screen.rows] == ["gamma"]
    assert drawn(screen)[-1].startswith("/mm")
    press(screen, "enter", "escape")
    assert (screen.filter, len(screen.rows)) == ("", 3)
    press(screen, "/", "x", "escape")
    assert screen.filter == ""
    assert not screen.over


def test_sorts_follow_each_other() -> None:
    screen = screen_of("a")
    press(screen, *"ssssss")
    assert [each[2] for each in asked(screen)] == ["share", "waited", "name", "state", "reason", "age", "share"]


def test_the_chosen_one_stays_chosen_when_the_order_changes_and_is_never_off_the_screen() -> None:
    screen = screen_of(*map(str, range(100)))
    screen.height = 20
    press(screen, "down", "down", "up", "j", "k")
    assert screen.name() == "1"
    assert isinstance(screen.line, Process)
    press(screen, "end", "up", "page up")
    assert screen.name() == "83"
    assert any("83" in line for line in drawn(screen))
    assert len(drawn(screen)) <= 20
    press(screen, "home", "up", "page down", "page down", "unknown")
    assert screen.name() == "30"
    screen.line.names = screen.line.names[:10]
    screen.refresh()
    assert screen.name() == "0"
    screen.line.names.clear()
    screen.refresh()
    press(screen, "down", "enter", "x", "y")
    assert screen.chosen is None and {each[0] for each in asked(screen)} == {"table"}


def test_a_dump_of_the_chosen_one_can_be_leafed_through() -> None:
    screen = screen_of("a", "b")
    screen.height = 10
    press(screen, "down", "enter")
    assert asked(screen)[-1] == ("dump", 2)
    assert drawn(screen)[0] == "line 0"
    press(screen, "down", "page down", "up", "end", "end")
    assert drawn(screen)[-2:] == ["line 49", "↑↓ scroll  escape back  q quit"]
    press(screen, "home", "escape")
    assert drawn(screen)[0].startswith("process 7")


def test_a_cancel_is_confirmed_and_meets_the_one_that_was_asked_about() -> None:
    screen = screen_of("a", "b", "main")
    press(screen, "x", "n")
    press(screen, "x", "escape")
    assert [each for each in asked(screen) if each[0] == "cancel"] == []
    press(screen, "x")
    assert drawn(screen)[-1] == "cancel a? y: yes"
    assert isinstance(screen.line, Process)
    screen.answer["rows"].reverse()
    screen.chosen = 2  # as when a has gone meanwhile, and another row is marked
    press(screen, "y")
    assert [each for each in asked(screen) if each[0] == "cancel"] == [("cancel", 1)]
    assert drawn(screen)[-1] == "a is cancelled"
    screen.chosen = 3
    press(screen, "x")
    assert drawn(screen)[-1] == "main is no dhaga: only those can be cancelled"


def test_q_quits_from_the_table_and_from_a_dump() -> None:
    for pressed in (["q"], ["enter", "q"]):
        screen = screen_of("a")
        press(screen, *pressed)
        assert screen.over


def test_names_cannot_command_the_terminal() -> None:
    screen = screen_of("\x1b[2J\x07[red]x[/red]\n")
    assert "?[2J?[red]x[/red]?" in "\n".join(drawn(screen, 300))
    assert printable("ä→\x9b") == "ä→?"


# ---- the command


def test_where_there_is_no_terminal_one_table_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with inspect(), dhaga.Scheduler("observed") as observed:
        observed.spawn(dhaga.sleep, 60, name="sleeper")
        assert main(["top", str(os.getpid()), "--filter", "sleep"]) == 0
        out = capsys.readouterr().out
        assert re.search(r"sleeper +WAITING +\d+% .* sleep +observed", out)
        assert "\x1b" not in out
        assert main(["top", str(os.getpid()), "--json", "--rows", "0"]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert (answer["total"], answer["rows"], answer["measured"]) == (1, [], True)
        observed.call(observed.cancel_all)


def test_a_process_that_cannot_be_asked_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", str(os.getpid())]) == 1
    assert capsys.readouterr().err.startswith(f"python -m dhaga top: process {os.getpid()} has no inspector")


@pytest.mark.parametrize("options", [["--sort", "size"], ["--interval", "0"], ["--interval", "x"], ["--rows", "x"]])
def test_bad_options_are_refused(options: list[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["top", "1", *options])
    assert end.value.code == 2


def test_without_rich_it_is_said_how_to_get_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith(("rich.", "dhaga.debug.top", "dhaga.debug.tables"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "rich", None)
    monkeypatch.delattr("dhaga.debug.top", raising=False)
    assert main(["top", "1"]) == 1
    assert capsys.readouterr().err == "python -m dhaga top needs rich: pip install 'dhaga[top]'\n"


# ---- live, in a terminal

TARGET = """
    import dhaga
    victim = dhaga.spawn(dhaga.sleep, 60, name="victim")
    dhaga.spawn(dhaga.sleep, 60, name="other", daemon=True)
    print("ready")
    try:
        victim.result()
    except dhaga.Cancelled as error:
        print(error)
"""


@pytest.fixture
def target() -> Iterator[scripts.Program]:
    """A process that is looked at."""
    program = scripts.Program(TARGET, DHAGA_DEBUG="1")
    program.interrupt_at("ready", signal.SIGCONT)
    yield program
    program.process.kill()
    program.process.communicate()


class Terminal:
    """A ``top`` that runs in a terminal."""

    def __init__(self, pid: int) -> None:
        self.end, self.its = pty.openpty()
        termios.tcsetwinsize(self.its, (24, 100))
        self.former = termios.tcgetattr(self.its)
        self.seen = self.all = ""
        command = [sys.executable, "-m", "dhaga", "top", str(pid), "--interval", "0.2"]
        environment = {**os.environ, "TERM": "xterm-256color"}
        self.process = subprocess.Popen(
            command, cwd=scripts.ROOT, env=environment, stdin=self.its, stdout=self.its, stderr=self.its
        )

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.end)
        os.close(self.its)

    def read(self) -> None:
        if select.select([self.end], [], [], 0.05)[0]:
            came = os.read(self.end, 65536).decode(errors="replace")
            self.seen += came
            self.all += came

    def wait_for(self, text: str) -> None:
        """Read on until something is written after what was waited for before."""
        deadline = time.monotonic() + scripts.PATIENCE
        while text not in self.seen:
            assert time.monotonic() < deadline, self.seen
            self.read()
        self.seen = self.seen[self.seen.index(text) + len(text) :]

    def press(self, text: str) -> None:
        os.write(self.end, text.encode())

    def status(self) -> int:
        """Wait for its end; the terminal must be as it was."""
        deadline = time.monotonic() + scripts.PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.seen
            self.read()
        self.read()
        assert termios.tcgetattr(self.its) == self.former
        assert "\x1b[?1049l" in self.all  # the other screen is left
        assert "Traceback" not in self.all
        return self.process.returncode


@pytest.mark.once
def test_live_it_filters_dumps_and_cancels(target: scripts.Program) -> None:
    with Terminal(target.process.pid) as top:
        top.wait_for("victim")
        top.press("/vict\r")
        top.wait_for("1 with 'vict' in it")
        top.press("\r")
        top.wait_for("victim WAITING, waits for")
        top.press("\x1b")
        top.wait_for("q quit  / filter")
        top.press("x")
        top.wait_for("cancel victim? y: yes")
        top.press("y")
        target.interrupt_at("asked for from outside of the process", signal.SIGCONT)
        top.press("q")
        assert top.status() == 0
    outcome = target.outcome()
    assert (outcome.status, outcome.out) == (0, "")
    assert "Traceback" not in outcome.err  # on a busy machine the watchdog may have a word to say


@pytest.mark.once
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_live_a_signal_ends_it(target: scripts.Program, number: int) -> None:
    with Terminal(target.process.pid) as top:
        top.wait_for("victim")
        top.process.send_signal(number)
        assert top.status() == 128 + number


@pytest.mark.once
def test_live_the_end_of_the_process_is_a_message(target: scripts.Program) -> None:
    with Terminal(target.process.pid) as top:
        top.wait_for("victim")
        target.process.kill()
        top.wait_for(f"process {target.process.pid} has ended, or answers no more")
        assert top.status() == 0
