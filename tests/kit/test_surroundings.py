"""``tests/kit/surroundings.py``: however a run is started, its tests find the conditions of a terminal."""

from __future__ import annotations

import ast
import os
import pathlib
import resource
import signal
import subprocess
import sys

from tests.kit.scripts import ROOT

LOOK = """
import os, resource, signal, sys

os.fstat(0)
print([number.name for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD)
       if signal.getsignal(number) is signal.SIG_IGN])
print(signal.pthread_sigmask(signal.SIG_BLOCK, []))
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
mask = os.umask(0)
os.umask(mask)
print(oct(mask), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
print(os.environ.get("TERM"), os.access(os.environ["HOME"], os.W_OK), os.environ.get("HTTP_PROXY"))
"""

PROGRAM = f"""
import resource, signal, subprocess, sys
from tests.kit import surroundings

surroundings.make_ordinary()
print(surroundings.undone, flush=True)
exec({LOOK!r}, {{}})
sys.exit(subprocess.call([sys.executable, "-c", {LOOK!r}]))
"""

HOW = 'trap "" INT TERM HUP QUIT; umask 077; ulimit -Sn 256; exec "$@" <&-'


def start(how: str, before: str = "", **environment: str) -> tuple[list[str], list[str]]:
    """Return the undone conditions, and the conditions that the process and its child then find."""
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{before}\n{PROGRAM}"
    command = ["sh", "-c", how, "sh", sys.executable, "-c", code]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    undone, *found = done.stdout.splitlines()
    return ast.literal_eval(undone), found


def as_in_a_terminal(terminal: str = "xterm") -> list[str]:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return ["[]", "set()", "True", f"0o22 {limit}", f"{terminal} True None"] * 2


def test_a_run_in_a_terminal_is_left_as_it_is(tmp_path: pathlib.Path) -> None:
    assert start('exec "$@"', TERM="xterm", HOME=str(tmp_path)) == ([], as_in_a_terminal())


def test_each_condition_is_undone_for_tests_and_their_children_and_named() -> None:
    undone, found = start(HOW, TERM="dumb", HOME="/proc", HTTP_PROXY="http://127.0.0.1:9")
    signals = [f"SIG{name} ignored" for name in ("HUP", "INT", "QUIT", "TERM")]
    others = ["stdin closed", "umask 077", "256 open files", "HTTP_PROXY set", "TERM dumb", "HOME read-only"]
    assert undone == signals + others
    assert found == as_in_a_terminal("xterm-256color")


def test_signals_that_were_blocked_are_let_through(tmp_path: pathlib.Path) -> None:
    before = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGALRM])"
    undone, found = start('exec "$@"', before, TERM="xterm", HOME=str(tmp_path))
    assert undone == [f"signal {number} blocked" for number in (signal.SIGINT, signal.SIGALRM)]
    assert found == as_in_a_terminal()
