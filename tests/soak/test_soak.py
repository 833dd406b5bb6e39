"""The reliability run (``python -m tests.soak``): it is green, and its checks find what is put in on purpose."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.kit import scripts
from tests.kit.scripts import Outcome
from tests.soak.__main__ import main
from tests.soak.machine import FLAT_MB, JUDGED, MB, Memory

pytestmark = pytest.mark.once

NURSERY = """
import json, os, sys, tempfile
import dhaga
from tests.soak import attempts, echo, machine, queues, run, watch
from tests.soak.__main__ import main

for line in sys.stdin:
    mischief, arguments = json.loads(line)
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        if not (pid := os.fork()):
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            exec(mischief)
            sys.exit(main(arguments))
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        texts = [file.seek(0) or file.read() for file in (out, err)]
    print(json.dumps([status, *texts]), flush=True)
"""
"""Runs each soak in a fork of its own: the imports take longer than what most of them have to show."""

LOSES_A_MESSAGE = """
attempts.DEADLINE = 2.0

def answer(self, sock, peer, whole=echo.Echo.answer):
    sock.recv(10)
    whole(self, sock, peer)

echo.Echo.answer = answer
"""

LOSES_AN_ITEM = """
attempts.DEADLINE = 2.0

class Losing(queues.Queue):
    def _put(self, item):
        if item != 77:
            super()._put(item)

queues.KINDS = (Losing,)
"""

DOUBLES_AN_ITEM = """
class Doubling(queues.Queue):
    def _put(self, item):
        super()._put(item)
        if item == 77:
            super()._put(item)

queues.KINDS = (Doubling,)
"""

LEAVES_A_DHAGA = """
run.TIDY = 0.2

def open(self, place, whole=echo.Echo.open):
    whole(self, place)
    place.scheduler.spawn(dhaga.sleep, 1000, name="forgotten")

echo.Echo.open = open
"""

LEAVES_A_DESCRIPTOR = """
run.TIDY = 0.2

def open(self, place, whole=echo.Echo.open):
    whole(self, place)
    os.dup(0)

echo.Echo.open = open
"""

LEAKS = """
machine.JUDGED, run.SAMPLE_EVERY = 0.5, 0.02
leaked = [b""]

def note(self, seconds, whole=machine.Memory.note):
    leaked.append(b"x" * (int(seconds * 60_000_000) - sum(map(len, leaked))))
    whole(self, seconds)

machine.Memory.note = note
"""

STOPS = """
def attempt(self, attempt):
    dhaga.sleep(1000)

echo.Echo.attempt = attempt
attempts.DEADLINE, watch.STALL, watch.GLANCE = 1000.0, 0.3, 0.05
"""

RAISES = """
def attempt(self, attempt):
    raise ConnectionResetError("out of the blue")

echo.Echo.attempt = attempt
"""

CANCELS = """
def attempt(self, attempt):
    raise dhaga.Cancelled("by somebody else")

echo.Echo.attempt = attempt
"""

MISCHIEF = {
    "loses a message": (LOSES_A_MESSAGE, "echo", ("has not ended in", "others came back", "it ended after")),
    "loses an item": (LOSES_AN_ITEM, "queues", ("has not ended in", "items")),
    "doubles an item": (DOUBLES_AN_ITEM, "queues", ("KeyError: 77",)),
    "leaves a dhaga": (LEAVES_A_DHAGA, "echo", ("left over: <Dhaga forgotten WAITING sleep> at left",)),
    "leaves a descriptor": (LEAVES_A_DESCRIPTOR, "echo", ("left over: fd",)),
    "leaks": (LEAKS, "echo", ("memory is not flat",)),
    "stops": (STOPS, "echo", ("nothing went on for 0.3 s",)),
    "raises": (RAISES, "echo", ("ConnectionResetError: out of the blue",)),
    "cancels": (CANCELS, "echo", ("was cancelled, but not by us",)),
}


Soak = Callable[..., Outcome]


@pytest.fixture(scope="module")
def soak() -> Iterator[Soak]:
    """Give a function that runs a soak with these arguments, and some mischief in it."""
    with subprocess.Popen(
        [sys.executable, "-c", NURSERY], cwd=scripts.ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as nursery:
        assert nursery.stdin is not None and nursery.stdout is not None
        line, answers = nursery.stdin, nursery.stdout

        def run(*arguments: str, mischief: str = "") -> Outcome:
            print(json.dumps([mischief, arguments]), file=line, flush=True)
            return Outcome(*json.loads(answers.readline()))

        yield run
        line.close()


@pytest.mark.long("two seconds of the soak, and its start")
def test_two_seconds_of_it_are_green(soak: Soak) -> None:
    outcome = soak("--seconds", "2", "--seed", "1")
    assert (outcome.status, outcome.err) == (0, ""), outcome
    assert outcome.lines[0] == "soak of 2 s: repeat it with --seed 1"
    assert outcome.lines[-1].startswith("== soak of 2 s, seed 1, passed: ")
    for name in ("echo", "web", "tls", "queues", "offload", "scopes", "cancels", "cuts", "resets", "signals"):
        assert f"{name} 0" not in outcome.lines[-2] and name in outcome.lines[-2]


@pytest.mark.parametrize("name", MISCHIEF)
@pytest.mark.long("runs the soak in a process")
def test_what_is_put_in_on_purpose_is_found(soak: Soak, name: str) -> None:
    mischief, scenario, signs = MISCHIEF[name]
    seconds = "0.2" if name.startswith("leaves") else "0.6"  # those are seen in the end, all others end it
    outcome = soak("--seconds", seconds, "--seed", "2", "--only", scenario, mischief=mischief)
    assert outcome.status == 1, outcome
    assert any(line.startswith("FAILED soak --seed 2 - ") for line in outcome.lines)
    assert any(sign in outcome.out for sign in signs), outcome.out
    assert "scheduler left (own thread)" in outcome.out or name.startswith("lea")
    assert outcome.lines[-1] == f"== soak of {seconds} s, seed 2, FAILED: repeat it with --seed 2"


def test_memory_that_grows_is_told_from_memory_that_is_flat() -> None:
    def verdict(seconds: float, growth_mb: float) -> str | None:
        memory = Memory()
        memory.samples = [(n, 80 * MB + int(growth_mb * MB * n / seconds) + n % 7 * MB) for n in range(int(seconds))]
        return memory.verdict(seconds)

    assert verdict(60, 0) is None
    assert verdict(60, FLAT_MB * 2) is None
    told = verdict(60, FLAT_MB * 5)
    assert told is not None and told.startswith("memory is not flat: 8")
    assert verdict(JUDGED - 1, FLAT_MB * 5) is None


@pytest.mark.parametrize("arguments", [["--seconds", "nan"], ["--only", "mail"]])
@pytest.mark.long("starts the soak in a process")
def test_a_mistake_in_the_arguments_is_told(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert "error: " in capsys.readouterr().err
