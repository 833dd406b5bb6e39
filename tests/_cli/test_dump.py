"""``python -m dhaga dump PID``, what it says where there is nothing to dump, and the dump at a signal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

import dhaga
from dhaga.__main__ import main
from dhaga._cli import dump
from dhaga.debug import inspect
from tests.kit import scripts

CROSSED = """
    import dhaga
    from dhaga.threading import Lock
    locks = Lock(), Lock()
    def cross(first, second):
        with first:
            while not second.locked():
                dhaga.sleep(0)
            second.acquire()
    both = [dhaga.spawn(cross, *locks, name="left"), dhaga.spawn(cross, *locks[::-1], name="right")]
    while not all(each.reason == "lock.acquire" for each in both):
        dhaga.sleep(0)
    print("ready")
    dhaga.sleep(60)
"""


def test_a_dump_of_another_process_names_who_waits_for_whom() -> None:
    program = scripts.Program(CROSSED, DHAGA_DEBUG="1")
    try:
        program.interrupt_at("ready", signal.SIGCONT)
        command = [sys.executable, "-m", "dhaga", "dump", str(program.process.pid)]
        found = subprocess.run(command, cwd=scripts.ROOT, capture_output=True, text=True, timeout=scripts.PATIENCE)
    finally:
        program.process.kill()
        program.outcome()
    assert (found.returncode, found.stderr) == (0, "")
    first, second, *_ = found.stdout.splitlines()
    assert first.startswith(f"process {program.process.pid} at ")
    assert second == "deadlock: left waits for right waits for left"
    assert "lock.acquire on <Lock held by right, 1 parked>, held by right" in found.stdout


def test_it_can_be_had_as_json_and_of_one_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with inspect(), dhaga.Scheduler("observed") as observed:
        sleeper = observed.spawn(dhaga.sleep, 60, name="sleeper")
        assert main(["dump", str(os.getpid()), "--json"]) == 0
        schedulers = json.loads(capsys.readouterr().out)["schedulers"]
        assert [view["name"] for each in schedulers for view in each["dhagas"]] == ["sleeper"]
        assert main(["dump", str(os.getpid()), "--ident", str(sleeper.ident)]) == 0
        assert capsys.readouterr().out.startswith("sleeper ")
        sleeper.cancel()


def test_names_cannot_command_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with inspect(), dhaga.Scheduler("observed") as observed:
        observed.spawn(dhaga.sleep, 60, name="\x1b[2J\udcff", daemon=True)
        assert main(["dump", str(os.getpid())]) == 0
    assert r"  \x1b[2J\udcff " in capsys.readouterr().out


def test_a_pager_may_be_left() -> None:
    here, there = os.pipe()
    os.close(here)
    command = [sys.executable, "-m", "dhaga", "dump", str(os.getpid())]
    with inspect():
        found = subprocess.run(
            command, cwd=scripts.ROOT, stdout=there, stderr=subprocess.PIPE, timeout=scripts.PATIENCE
        )
    os.close(there)
    assert (found.returncode, found.stderr) == (1, b"")


@pytest.mark.parametrize("pid", ["x", "0", "-1", "99999999999999999999", ""])
def test_what_is_not_a_process_id_is_a_fault_of_the_command_line(capsys: pytest.CaptureFixture[str], pid: str) -> None:
    with pytest.raises(SystemExit) as end:
        dump.main(["--", pid])
    assert end.value.code == 2
    assert f"{pid!r} is not a process id" in capsys.readouterr().err
