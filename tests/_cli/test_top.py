"""``python -m dhaga top PID``: its keys, what they do, and the terminal that is left as it was."""

from __future__ import annotations

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
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

import dhaga
from dhaga.__main__ import main
from dhaga.debug import inspect
from tests.kit import scripts

pytest.importorskip("rich")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "dhaga"


# ---- the command


@pytest.mark.crowd
def test_where_there_is_no_terminal_one_table_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with inspect(), dhaga.Scheduler("observed") as observed:
        sleeper = observed.spawn(dhaga.sleep, 60, name="sleeper")
        while not sleeper.parked:
            time.sleep(0.001)
        assert main(["top", str(os.getpid()), "--filter", "sleep"]) == 0
        out = capsys.readouterr().out
        assert out.startswith(f"1 dhaga: 1 waiting  process {os.getpid()}\n")
        assert re.search(r"sleeper +WAITING +\d+% .* sleep *\n", out)
        assert "scheduler" not in out  # there is one
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


def test_without_rich_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("rich.", "dhaga._cli.top_"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "rich", None)
    with pytest.raises(SystemExit, match=r"^python -m dhaga top needs rich: pip install 'dhaga\[top\]'$"):
        main(["top", "1"])


def test_between_two_tables_it_asks_often_enough_for_the_measurement_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    from dhaga._cli import top_terminal
    from dhaga.debug._on_demand import KEEP_SECONDS

    clock, asked = [0.0], [0.0]

    def ask(what: str = "table", **arguments: object) -> dict[str, object]:
        asked.append(clock[0])
        screen.finished = len(asked) == 20
        return {}

    def wait(seconds: float) -> None:
        clock[0] += max(0.0, seconds)

    screen = SimpleNamespace(finished=False, draw=str, refresh=ask, client=SimpleNamespace(ask=ask))
    live = SimpleNamespace(console=SimpleNamespace(size=(80, 24)), update=lambda *_, **__: None)
    monkeypatch.setattr(top_terminal, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    top_terminal.run(screen, SimpleNamespace(wait=wait), live, 12.0)
    assert max(after - before for before, after in pairwise(asked)) <= KEEP_SECONDS / 2
    assert {12.0, 24.0} < set(asked)


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

    def __init__(self, pid: int, kind: str = "xterm-256color") -> None:
        self.end, self.its = pty.openpty()
        termios.tcsetwinsize(self.its, (24, 100))
        self.former = termios.tcgetattr(self.its)
        self.seen = self.all = ""
        command = [sys.executable, "-m", "dhaga", "top", str(pid), "--interval", "0.2"]
        environment = {**os.environ, "TERM": kind}
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

    def read(self) -> bool:
        """Read what comes within a moment. Returns: whether something came."""
        if not select.select([self.end], [], [], 0.05)[0]:
            return False
        came = os.read(self.end, 65536).decode(errors="replace")
        self.seen += came
        self.all += came
        return True

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
        while self.read():
            pass
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
        target.interrupt_at("requested from outside the process", signal.SIGCONT)
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
        top.wait_for(f"process {target.process.pid} has ended, or no longer answers")
        assert top.status() == 0


@pytest.mark.once
def test_a_terminal_without_cursor_movement_gets_the_table_once(target: scripts.Program) -> None:
    with Terminal(target.process.pid, "dumb") as top:
        top.wait_for("victim")
        assert top.process.wait(scripts.PATIENCE) == 0
        assert "\x1b" not in top.all
