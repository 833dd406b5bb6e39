"""``eventlet.patcher``: in processes of their own."""

from __future__ import annotations

import subprocess
import sys

import pytest

INSTALL = "import dhaga.compat; dhaga.compat.install('eventlet'); import eventlet\n"


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", INSTALL + code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_patch_is_whole_and_tells_what_was_asked_for() -> None:
    code = """
from eventlet import patcher
import threading, socket, time
print(patcher.is_monkey_patched("thread"))
eventlet.monkey_patch(thread=True, socket=True)
print([patcher.is_monkey_patched(each) for each in ("thread", threading, "socket", "ssl", "os", time)])
eventlet.monkey_patch()
print([patcher.is_monkey_patched(each) for each in ("os", time, "MySQLdb")])
plain = patcher.original("threading")
print(plain.Thread is threading.Thread, plain.current_thread().name, "Thread" in dir(plain))
try:
    eventlet.monkey_patch(sockets=True)
except TypeError as error:
    print(error)
eventlet.monkey_patch(all=False)
"""
    assert run(code).splitlines() == [
        "False",
        "[True, True, True, True, False, False]",
        "[True, True, False]",
        "False MainThread True",
        "monkey_patch() got an unexpected keyword argument 'sockets'",
    ]


def test_a_private_copy_waits_in_greenthreads_and_leaves_the_public_one_alone() -> None:
    code = """
import http.client
copy = eventlet.import_patched("http.client")
names = {}
again = eventlet.patcher.inject("http.client", names)
import dhaga.socket
print(copy is http.client, copy.socket.socket is dhaga.socket.socket, names["HTTPConnection"] is again.HTTPConnection)
"""
    assert run(code) == "False True True\n"


@pytest.mark.parametrize("call", ["import_patched('http.client', ('socket', None))", "patcher.patch_function(print)"])
def test_what_cannot_be_had_says_so(call: str) -> None:
    code = f"try: eventlet.{call}\nexcept NotImplementedError as error: print('patched_imports' in str(error))"
    assert run(code) == "True\n"
