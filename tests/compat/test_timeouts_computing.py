"""Timeouts and kills of gevent and eventlet over code that computes, where the program turns preemption on."""

from __future__ import annotations

import textwrap

import pytest

from tests._kernel.test_preemption_strikes import needs_events
from tests.kit.scripts import prints

PROGRAM = """
import dhaga.compat
dhaga.compat.install("PACKAGE")
import PACKAGE
from PACKAGE import spawn, sleep, Timeout

ended = []

def compute():
    while True:
        pass

def victim():
    try:
        compute()
    finally:
        ended.append("finally")

try:
    with Timeout(0.05):
        compute()
except Timeout:
    print("struck")
with Timeout(0.05, False):
    compute()
print("silent")
killed = spawn(victim)
sleep(0.02)
killed.kill()
while not ended:
    sleep(0.01)
print(*ended)
"""


@needs_events
@pytest.mark.process
@pytest.mark.parametrize("package", ["gevent", "eventlet"])
def test_a_timeout_and_a_kill_end_code_that_computes(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DHAGA_PREEMPT", "0.01")
    assert prints(textwrap.dedent(PROGRAM.replace("PACKAGE", package))) == ["struck", "silent", "finally"]
