"""Code that the interpreter itself calls in a program whose dhagas all wait: scripts of debuggers, signals, and so on.

Scripts and handlers run in the main code, which can wait. The others run on the hub, which cannot: they spawn.
"""

from __future__ import annotations

import sys

import pytest

from tests.kit.scripts import prints

PROGRAM = """
import ctypes, os, signal, socket, sys, tempfile, threading, time
import dhaga, dhaga.monkey
dhaga.monkey.patch(cooperative=True)
from greenlet import getcurrent
from dhaga._kernel.wait.current import this_thread

lock, finished, begun, armed = threading.Lock(), threading.Event(), [], []

def take():
    with lock: pass

def connect():
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname()).close()

def spawn_and_join():
    thread = threading.Thread(target=time.sleep, args=(0.01,))
    thread.start()
    thread.join()

WAITS = [lambda: time.sleep(0.01), take, connect, spawn_and_join]

def wait():
    for each in WAITS: each()
    finished.set()

def on_hub():
    return getcurrent() is this_thread.main.scheduler.hub

def refused(fn):
    try: fn()
    except dhaga.ParkError as error: return "dhaga.spawn(fn" in str(error)

def spawn_on_hub(*args):
    "Try to wait on the hub, and have a dhaga wait."
    if armed and not begun and on_hub():
        begun.append(True)
        if all(refused(each) for each in WAITS): dhaga.spawn(wait)

signal.signal(signal.SIGINT, lambda *_: wait())

def hold():
    with lock:
        strike()
        time.sleep(0.05)

def remote_script():
    with tempfile.NamedTemporaryFile("w", delete=False) as file:
        file.write("import __main__; __main__.wait()")
    sys.remote_exec(os.getpid(), file.name)

def pending_call():
    armed.append(True)
    for _ in range(30):
        ctypes.pythonapi.Py_AddPendingCall(CALLBACK, None)

CALLBACK = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(lambda _: spawn_on_hub() or 0)

def audit_hook():
    sys.addaudithook(spawn_on_hub)
    armed.append(True)
    this_thread.main.scheduler.loop.call_soon(sys.audit, "tests.strike")

def monitoring_callback():
    sys.monitoring.use_tool_id(4, "tests")
    sys.monitoring.register_callback(4, sys.monitoring.events.LINE, spawn_on_hub)
    armed.append(True)
    sys.monitoring.set_events(4, sys.monitoring.events.LINE)

def strike_from_thread(call):
    "Strike once the other code waits, from an OS thread."
    dhaga.monkey.original("_thread", "start_new_thread")(call, ())
"""

ENDING = """
threading.Thread(target=hold).start()
finished.wait()
if hasattr(sys, "monitoring") and sys.monitoring.get_tool(4): sys.monitoring.free_tool_id(4)
print("waited", len(begun))
"""


def waited(strike: str, *, on_hub: bool, pure: str) -> None:
    assert prints(f"{PROGRAM}\nstrike = {strike}\n{ENDING}", DHAGA_PURE=pure) == [f"waited {int(on_hub)}"]


@pytest.mark.skipif(sys.version_info < (3, 14), reason="came with Python 3.14")
@pytest.mark.parametrize("pure", ["0", "1"])
def test_a_script_of_a_debugger_sleeps_locks_connects_spawns_and_joins(pure: str) -> None:
    waited("lambda: strike_from_thread(remote_script)", on_hub=False, pure=pure)


@pytest.mark.parametrize("pure", ["0", "1"])
def test_an_interrupt_by_c_code_sleeps_locks_connects_spawns_and_joins(pure: str) -> None:
    waited("ctypes.pythonapi.PyErr_SetInterrupt", on_hub=False, pure=pure)


@pytest.mark.parametrize("pure", ["0", "1"])
def test_a_pending_call_on_the_hub_spawns_what_waits(pure: str) -> None:
    waited("lambda: strike_from_thread(pending_call)", on_hub=True, pure=pure)


@pytest.mark.parametrize("pure", ["0", "1"])
def test_an_audit_hook_on_the_hub_spawns_what_waits(pure: str) -> None:
    waited("audit_hook", on_hub=True, pure=pure)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="came with Python 3.12")
@pytest.mark.parametrize("pure", ["0", "1"])
def test_a_monitoring_callback_on_the_hub_spawns_what_waits(pure: str) -> None:
    waited("monitoring_callback", on_hub=True, pure=pure)
