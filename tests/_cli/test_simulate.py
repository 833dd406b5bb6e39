"""``python -m dhaga simulate``: it finds, replays and shortens."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from dhaga.__main__ import main
from tests.kit.scripts import PATIENCE, ROOT

pytestmark = pytest.mark.once


BANK = """
import sys
import threading

balance = 100


def withdraw(amount):
    global balance
    if balance >= amount:
        left = balance - amount
        balance = left
        paid.append(amount)


paid = []
threads = [threading.Thread(target=withdraw, args=(60,)) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("paid", *paid, *sys.argv[1:])
assert sum(paid) <= 100, f"{sum(paid)} of 100 paid"
"""

GOOD = """
import threading, time
threading.Thread(target=time.sleep, args=(3600,)).start()
print("done")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "bank.py").write_text(BANK)
    (tmp_path / "good.py").write_text(GOOD)
    return tmp_path


def simulate(folder: Path, *arguments: str, **hash_seed: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dhaga", "simulate", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)} | hash_seed
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE)


def test_a_race_is_found_replayed_and_shortened(folder: Path) -> None:
    found = simulate(folder, "--seeds", "300", "bank.py")
    assert found.returncode == 1 and found.stdout == ""
    assert re.match(r"\d+ runs, \d+ of them different( \(.*\))?, \d failed; ", found.stderr)
    assert "AssertionError: 120 of 100 paid" in found.stderr and "the lines around the switches:" in found.stderr
    replayed = 0
    for line in found.stderr.splitlines():
        if line.startswith(("replay it: ", "the short run: ")):
            words = shlex.split(line.partition(": ")[2])
            assert words[:4] == ["python", "-m", "dhaga", "simulate"]
            again = simulate(folder, *words[4:])
            assert (again.returncode, again.stdout) == (1, "paid 60 60\n")
            assert "AssertionError: 120 of 100 paid" in again.stderr
            replayed += 1
    assert replayed in (1, 2)


ASK = """
import socket
import threading

def serve(listener):
    while True:
        threading.Thread(target=listener.accept()[0].recv, args=(1,), daemon=True).start()

listener = socket.create_server(("127.0.0.1", 80))
threading.Thread(target=serve, args=(listener,), daemon=True).start()
with socket.create_connection(listener.getsockname()) as sock:
    sock.recv(1)
"""

RESETS = """
faults = [
    {kind = "stall", every = 1, seconds = 0.1},
    {kind = "reset", port = 80, at = [10, 20]},
]
"""


def test_the_short_run_names_the_faults_that_it_needs(folder: Path) -> None:
    (folder / "ask.py").write_text(ASK)
    (folder / "faults.toml").write_text(RESETS)
    found = simulate(folder, "--faults", "faults.toml", "ask.py")
    [command] = [line for line in found.stderr.splitlines() if line.startswith("the short run: ")]
    words = shlex.split(command)
    assert words[words.index("--only-faults") + 1] == "2.1"
    again = simulate(folder, *words[words.index("simulate") + 1 :])
    assert again.returncode == 1 and "ConnectionResetError" in again.stderr
    assert "fault 2.1, reset of port 80" in again.stderr and "fault 1." not in again.stderr


def test_a_program_that_passes_is_told_in_a_line(folder: Path) -> None:
    searched = simulate(folder, "--seeds", "5", "good.py")
    assert (searched.returncode, searched.stdout) == (0, "")
    assert searched.stderr.startswith("5 runs, ") and len(searched.stderr.splitlines()) == 1
    once = simulate(folder, "--seed", "4", "good.py")
    assert (once.returncode, once.stdout) == (0, "done\n")
    assert re.fullmatch(r"seed 4 passes: \d+ events, 3600 s, hash [0-9a-f]{16}\n", once.stderr)


SETS = """
import threading
for name in {"one", "two", "three", "four"}:
    threading.Thread(target=print, args=(name,), name=name).start()
"""


def test_the_order_of_a_set_is_the_same_whatever_the_hash_seed(folder: Path) -> None:
    (folder / "sets.py").write_text(SETS)
    first, second = (simulate(folder, "--seed", "1", "sets.py", PYTHONHASHSEED=seed) for seed in ("random", "7"))
    assert first.stdout == second.stdout != "" and first.stderr == second.stderr


def test_two_processes_run_a_seed_in_the_same_way(folder: Path) -> None:
    first, second = (simulate(folder, "--seed", "4", "--preempt", "instructions", "bank.py").stderr for _ in range(2))
    assert first == second != ""
    checked = simulate(folder, "--check", "--seeds", "3", "bank.py")
    assert checked.returncode == 0 and len(checked.stderr.splitlines()) == 3
    later = simulate(folder, "--check", "--seeds", "2", "--first", "7", "bank.py")
    assert [line.partition(":")[0] for line in later.stderr.splitlines()] == ["seed 7", "seed 8"]


def test_the_arguments_after_the_program_are_its_own(folder: Path) -> None:
    found = simulate(folder, "--seed", "0", "--preempt=none", "bank.py", "--seeds", "x", "-m")
    assert (found.returncode, found.stdout) == (0, "paid 60 --seeds x -m\n")


def test_a_flag_may_be_abbreviated(folder: Path) -> None:
    assert simulate(folder, "--seeds", "2", "--keep", "good.py").returncode == 0


def test_the_limits_of_a_search_are_repeated_in_its_replay(folder: Path) -> None:
    found = simulate(folder, "--max-events", "3", "--max-seconds", "50", "--timeout", "30", "good.py")
    [command] = [line for line in found.stderr.splitlines() if line.startswith("replay it: ")]
    words = shlex.split(command)
    for option, value in (("--max-events", "3"), ("--max-seconds", "50.0"), ("--timeout", "30.0")):
        assert words[words.index(option) + 1] == value
    again = simulate(folder, *words[words.index("simulate") + 1 :])
    assert again.returncode == 1 and "3 events" in again.stderr


def test_a_module_is_run_by_its_name(folder: Path) -> None:
    found = simulate(folder, "--seed", "0", "--strategy", "fifo", "-m", "bank", "a")
    assert (found.returncode, found.stdout) == (0, "paid 60 a\n")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "a program is expected after the options"),
        (["bonk.py"], "can't open file"),
        (["-m", "bonk"], "No module named bonk"),
        (["--seed", "x", "good.py"], "'x' is not a whole number from 0"),
        (["--seeds", "0", "good.py"], "'0' is not a whole number from 1"),
        (["--strategy", "pict", "good.py"], "there is no strategy 'pict'"),
        (["--switches", "1>2", "good.py"], "a switch is written as"),
        (["--only-faults", "first", "good.py"], "is written as 1.2, and not 'first'"),
        (["--preempt", "words", "good.py"], "invalid choice: 'words'"),
        (["--allow", "net", "good.py"], "invalid choice: 'net'"),
        (["--sed", "1", "good.py"], "there is no option --sed: did you mean --seed"),
        (["--max-seconds", "0", "good.py"], "max_seconds is a number of seconds above 0"),
    ],
)
def test_bad_input_is_an_error_that_says_what_is_right(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    text: str,
) -> None:
    monkeypatch.chdir(folder)
    try:
        status: object = main(["simulate", *arguments])
    except SystemExit as end:
        status = end.code
    assert status in (1, 2) and text in capsys.readouterr().err
