"""Errors that a thread gets wherever it computes: they also strike a dhaga or main code whose turns are ended."""

from __future__ import annotations

import sys

import pytest

from tests.kit.scripts import prints

needs_events = pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring came with Python 3.12")

# Each function computes for ever, in a way of its own, below `except`, `with` and `finally`.
COMPUTE = """
import ctypes, functools, signal, threading, time

class Late(Exception):
    pass

class Entered:
    def __enter__(self): pass
    def __exit__(self, *error): trace.append("exit")

def helper():
    return 1

def count():
    while True:
        yield 1

endless, trace, stop = count(), [], []
FORM = '''
def compute():
    rounds = 0
    try:
        with Entered():
            try:
                while not stop:
                    BODY
            finally:
                trace.append("finally")
    except Late:
        trace.append("late")
'''
functions = []
for body in (
    "pass",
    "rounds += 1",
    "rounds += helper()",
    "[each for each in range(100)]",
    "next(endless)",
    "functools.reduce(lambda one, other: one + other, range(50))",
):
    names = dict(globals())
    exec(FORM.replace("BODY", body), names)
    functions.append(names["compute"])
"""

STRUCK = " ".join(["finally exit late"] * 6)


@needs_events
@pytest.mark.process
def test_the_error_of_a_signals_handler_strikes_main_code_that_was_preempted() -> None:
    # The rival sends the signal while it sees the main code in its loop. If the main code itself got the signal there,
    # at a jump, CPython 3.13 would skip the handlers of errors.
    program = """
import greenlet

main, due = greenlet.getcurrent(), []

def line_of_main():
    frame = main.gr_frame
    while frame is not None and frame.f_code.co_name != "compute":
        frame = frame.f_back
    return frame and frame.f_lineno

def rival():
    while not stop:
        if due and line_of_main() in (7, 8):
            due.pop()
            signal.raise_signal(signal.SIGALRM)

def handler(*_):
    raise Late

signal.signal(signal.SIGALRM, handler)
thread = threading.Thread(target=rival)
thread.start()
for compute in functions:
    due.append(1)
    compute()
stop.append(1)
thread.join()
print(*trace)
"""
    assert prints(f"import dhaga.monkey\ndhaga.monkey.patch()\n{COMPUTE}{program}") == [STRUCK]


@needs_events
@pytest.mark.process
def test_an_asynchronous_error_strikes_a_thread_that_computes() -> None:
    program = """
raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
for compute in functions:
    thread = threading.Thread(target=compute)
    thread.start()
    time.sleep(0.02)
    assert raise_in(ctypes.c_ulong(thread.ident), ctypes.py_object(Late)) == 1
    thread.join()
print(*trace)
"""
    assert prints(f"import dhaga.monkey\ndhaga.monkey.patch()\n{COMPUTE}{program}") == [STRUCK]
