"""What the log acknowledged is there after kill -9; and its command line."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

from examples.wal import WriteAheadLog
from tests.kit.scripts import ROOT

ROUNDS = 5
APPENDER = """
import os
import sys
import dhaga
from examples.wal import WriteAheadLog

def append(who):
    turn = 0
    while True:
        turn += 1
        number = log.append(f"{who} {turn}".encode() * (1 + turn % 50))
        os.write(1, f"{number} {who} {turn}\\n".encode())

log = WriteAheadLog(sys.argv[1], segment_bytes=20_000)
print("ready", flush=True)
with dhaga.Scheduler() as other:
    for who in range(20):
        other.spawn(append, f"other-{who}")
        last = dhaga.spawn(append, f"main-{who}")
    last.join()
"""


def killed_after(directory: Path, seconds: float) -> list[tuple[int, bytes]]:
    """Have a process append until it is killed. Returns: what it has been told is durable."""
    process = subprocess.Popen(
        [sys.executable, "-c", APPENDER, str(directory)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        time.sleep(seconds)  # a random moment of the other process's: no event stands for it
    finally:
        process.kill()
        lines = process.communicate()[0].splitlines(keepends=True)
    whole = [line.split() for line in lines if line.endswith("\n")]
    return [(int(number), f"{who} {turn}".encode() * (1 + int(turn) % 50)) for number, who, turn in whole]


def test_kill_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    choice, acknowledged = random.Random(seed), dict[int, bytes]()
    for _ in range(ROUNDS):
        told = killed_after(tmp_path, choice.uniform(0, 0.15))
        assert len({number for number, _ in told} | set(acknowledged)) == len(told) + len(acknowledged)
        acknowledged.update(told)
        with WriteAheadLog(tmp_path) as wal:
            held = list(wal.replay())
        assert [number for number, _ in held] == list(range(1, len(held) + 1))
        assert acknowledged.items() <= dict(held).items()
    assert len(acknowledged) > 100


def run(*arguments: object, stdin: str = "") -> tuple[int, str, str]:
    """Run a command to its end."""
    line = [sys.executable, "-m", "examples.wal", *map(str, arguments)]
    done = subprocess.run(line, cwd=ROOT, input=stdin, capture_output=True, text=True, timeout=30)
    return done.returncode, done.stdout, done.stderr


def test_lines_are_appended_replayed_and_verified(tmp_path: Path) -> None:
    directory = tmp_path / "new" / "log"
    status, out, err = run("append", directory, "--dhagas", 1, stdin="one\n\nthree")
    assert (status, out, err) == (0, "1\n2\n3\n", "")
    status, out, err = run("append", directory, "--segment-bytes", 100, stdin="four\n" * 100)
    assert (status, sorted(map(int, out.split())), err) == (0, list(range(4, 104)), "")
    assert run("replay", directory, "--after", 1)[1].startswith("2\t\n3\tthree\n4\tfour\n")
    status, out, err = run("verify", directory)
    assert (status, err) == (0, "")
    assert out.startswith("103 records, 1 to 103, in ")
