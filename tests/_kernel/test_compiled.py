"""The compiled fast paths: each has a Python twin, both do the same, and code that takes part in a park sees both."""

from __future__ import annotations

import gc
import inspect
import os
import re
import subprocess
import sys
import tracemalloc
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import pytest

import dhaga
import dhaga.time
from dhaga import queue, socket, ssl, threading
from dhaga._kernel import hooks
from dhaga._kernel.fast import accelerator, compiled
from dhaga._kernel.run import fd_watch
from dhaga._kernel.run.microthread import Dhaga
from dhaga._kernel.run.run_queues import NORMAL
from dhaga._kernel.run.timers import BATCH, COMPACT_ABOVE
from tests._kernel.compiled_methods import compiled_methods

running = pytest.mark.skipif(
    not isinstance(accelerator.fast_paths, ModuleType), reason=f"pure: {accelerator.fast_paths!s:.5}…"
)

METHODS = compiled_methods()

COMPILED = sorted({(each.__module__, each.__qualname__) for each in compiled.python_functions.values()}) or [("", "")]
"""Module and name of each Python function that has a compiled twin; in pure mode none."""


def program(code: str, **environ: str) -> str:
    """Run a program in a fresh process. Returns: what it printed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DHAGA_")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, env=kept | environ)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


# ---- one contract


@running
@pytest.mark.parametrize(("owner", "name"), METHODS, ids=lambda each: getattr(each, "__name__", each))
def test_each_compiled_method_keeps_its_python_twin_signature_and_docstring(owner: type, name: str) -> None:
    method = getattr(owner, name)
    twin = compiled.python_twin(method)
    assert not isinstance(method, FunctionType)
    assert isinstance(twin, FunctionType)
    assert (method.__doc__ or "") == (twin.__doc__ or "")
    parameters = inspect.signature(twin).parameters
    assert list(inspect.signature(method).parameters) == list(parameters)
    defaults = [each.default for each in parameters.values()]
    assert [each.default for each in inspect.signature(method).parameters.values()] == defaults


@running
def test_each_function_of_the_list_in_c_is_the_twin_of_one() -> None:
    listed = (Path(compiled.__file__).parent / "fast_paths/compiled_functions.h").read_text()
    rows = re.findall(r'^COMPILED(?:_FUNCTION)?\([A-Z_]+, [&"]([\w.]+)"?, "(\w+)", ', listed, re.MULTILINE)
    methods = [(owner.__name__, name) for owner, name in METHODS if getattr(owner, name).__name__ == name]
    functions = [("dhaga._kernel.run.loop", "has_event"), (dhaga.sleep.__module__, "sleep"), ("dhaga.time", "sleep")]
    functions.append(("dhaga.threading", "get_ident"))
    assert sorted((owner.lower(), name) for owner, name in rows) == sorted(
        (owner.lower(), name) for owner, name in [*functions, *methods]
    )
    assert all(type(getattr(sys.modules[module], name)) is BuiltinFunctionType for module, name in functions)


@running
def test_a_compiled_function_of_a_module_can_be_found_by_its_name() -> None:
    assert dhaga.sleep.__module__ == "dhaga._kernel.run.scheduler" and dhaga.sleep.__name__ == "sleep"
    assert str(inspect.signature(dhaga.sleep)) == "(seconds=0)"
    assert "Parks: ``sleep``" in (dhaga.sleep.__doc__ or "")
    assert str(inspect.signature(dhaga.time.sleep)) == "(seconds, /)"


def test_the_signature_of_a_dhaga_can_be_read() -> None:
    assert [*inspect.signature(Dhaga).parameters][:3] == ["scheduler", "fn", "args"]


def test_a_python_function_is_its_own_twin() -> None:
    assert compiled.python_twin(program) is program


@running
def test_constants_have_the_same_values_in_c() -> None:
    assert isinstance(accelerator.fast_paths, ModuleType)
    assert (accelerator.fast_paths.TOLERATED, accelerator.fast_paths.FIRED_AT_ONCE) == (COMPACT_ABOVE, BATCH)
    assert accelerator.fast_paths.NORMAL == NORMAL
    assert (accelerator.fast_paths.READ, accelerator.fast_paths.WRITE) == (fd_watch.READ, fd_watch.WRITE)
    assert (accelerator.fast_paths.RECORD, accelerator.fast_paths.PIECE) == (ssl.RECORD, ssl.PIECE)


RANDOM = """
import random, sys
import dhaga, trustme
from dhaga import queue, socket, ssl, threading
from dhaga._kernel.originals import allocate_lock, start_new_thread
from dhaga.testing import virtual_clock

def contexts():
    authority = trustme.CA()
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("localhost").configure_cert(server)
    authority.configure_trust(client)
    return server, client

class Thread:
    "An OS thread that takes a step while its caller holds all of the others up: so each run takes the same course."
    def __init__(self):
        self.asked, self.done = allocate_lock(), allocate_lock()
        self.asked.acquire(), self.done.acquire()
        start_new_thread(self.run, ())

    def run(self):
        while True:
            self.asked.acquire()
            if self.task is None:
                return self.done.release()
            try:
                self.result = self.task()
            except Exception as error:
                self.result = type(error).__name__
            self.done.release()

    def take(self, task):
        self.task = task
        self.asked.release()
        self.done.acquire()
        return self.result if task else None

rng, trace = random.Random(int(SEED)), []
with virtual_clock():
    lock, rlock, condition = threading.Lock(), threading.RLock(), threading.Condition()
    event, items, bounded = threading.Event(), queue.Queue(), queue.Queue(2)
    permits, few = threading.Semaphore(2), threading.BoundedSemaphore(1)
    simple, (near, far), children = queue.SimpleQueue(), socket.socketpair(), []
    thread, (server, client), pair = Thread(), contexts(), socket.socketpair()
    accepting = dhaga.spawn(server.wrap_socket, pair[0], server_side=True)
    there = client.wrap_socket(pair[1], server_hostname="localhost")
    here = accepting.result()

    def take(what, timeout):
        if what.acquire(timeout=timeout):
            try:
                dhaga.sleep(0)
            finally:
                what.release()
            return "taken"
        return "late"

    def with_(what):
        with what:
            dhaga.sleep(rng.choice((0, 0, 0.01)))
        return "with"

    def get(what, timeout):
        try:
            return what.get(timeout=timeout)
        except queue.Empty:
            return "empty"

    def put(what, item, timeout):
        try:
            return what.put(item, timeout=timeout)
        except queue.Full:
            return "full"

    def notified(timeout):
        with condition:
            return condition.wait(timeout)

    def notify():
        with condition:
            condition.notify(rng.randrange(1, 3))

    def notify_at_once():
        "From the OS thread: the holder of the lock may be a dhaga, which cannot run meanwhile."
        if not condition.acquire(False):
            return "held"
        condition.notify(rng.randrange(1, 3))
        condition.release()
        return "notify"

    def in_time(wait):
        try:
            with dhaga.Timeout(rng.choice((0.001, 0.01, 0.03))):
                return wait()
        except TimeoutError:
            return "late"

    def receive(sock):
        sock.settimeout(rng.choice((None, None, 0.005, 0.02)))
        if rng.random() < 0.5:
            return sock.recv(rng.choice((10, 100_000)))
        room = bytearray(rng.choice((3, 30)))
        return room[: sock.recv_into(room)]

    def send(sock, data):
        send_all = rng.random() >= 0.5
        if sock in (near, far) and len(data) % 3 == 0:
            return sock.send(data, (socket.MSG_DONTWAIT, int(socket.MSG_DONTWAIT), 0)[data[0] % 3])
        return sock.sendall(data) if send_all else sock.send(data)

    def some_time():
        return rng.choice((None, 0, 0.005, 0.02)) if rng.random() < 0.4 else 0.03

    def step(n):
        which = rng.randrange(23)
        if which == 0: return take(lock, rng.choice((-1, 0.005, 0.03)))
        if which == 1: return with_(lock)
        if which == 2: return with_(rlock)
        if which == 3: return with_(permits)
        if which == 4: return event.wait(some_time() or 0.01)
        if which == 5: event.set(); return "set"
        if which == 6: event.clear(); return "clear"
        if which == 7: return get(rng.choice((items, bounded)), some_time() or 0.01)
        if which == 8: return put(rng.choice((items, bounded)), n, some_time() or 0.01)
        if which == 9: return notified(some_time() or 0.01)
        if which == 10: notify(); return "notify"
        if which == 11: dhaga.sleep(rng.choice((0, 0.001, 1e-9, 2e-3))); return "slept"
        if which == 12: return with_(few)
        if which == 13: return in_time(rng.choice((items, bounded, simple)).get)
        if which == 14: return in_time(lambda: with_(rng.choice((permits, few))))
        if which == 15: return in_time(event.wait)
        if which == 16: return simple.put(n)
        if which == 17:
            children.append(dhaga.spawn(step, n))
            return in_time(children[-1].join)
        if which == 18: return in_time(lambda: receive(rng.choice((near, far))))
        if which == 19: return send(rng.choice((near, far)), bytes([n]) * rng.randrange(1, 20))
        if which == 20: return in_time(lambda: receive(rng.choice((here, there))))
        if which == 21: return send(rng.choice((here, there)), bytes([n]) * rng.randrange(1, 20))
        return thread.take(rng.choice((event.set, event.clear, simple.get_nowait, items.get_nowait,
            lambda: simple.put(n), lambda: items.put(n), lambda: bounded.put_nowait(n), notify_at_once,
            lambda: lock.acquire(False) and lock.release(), lambda: few.acquire(False) and few.release())))

    def actor(name):
        for n in range(40):
            try:
                trace.append((name, n, step(n)))
            except dhaga.Cancelled:
                trace.append((name, n, "cancelled"))

    actors = [dhaga.spawn(actor, n, priority=rng.choice((dhaga.NORMAL, dhaga.NORMAL, dhaga.HIGH, dhaga.LOW)))
              for n in range(12)]
    for _ in range(30):
        dhaga.sleep(0.004)
        rng.choice(actors).cancel()
    for each in actors + children:
        each.join()
    for each in (near, far, here, there):
        each.close()
    thread.take(None)
    trace.append((lock.locked(), repr(rlock), items.qsize(), bounded.qsize(), permits._value))
for each in trace:
    print(*each)
"""


@running
@pytest.mark.parametrize("seed", range(5))
def test_a_random_program_takes_the_same_course_by_both(seed: int) -> None:
    """Nothing in the program is left to the clock or to chance: two runs of it in Python do not differ."""
    pytest.importorskip("trustme")
    code = RANDOM.replace("SEED", str(seed))
    by_c, by_python = program(code), program(code, DHAGA_FAST_PATHS="0")
    assert by_c == by_python
    assert seed or program(code, DHAGA_FAST_PATHS="0") == by_python
    assert len(by_c.splitlines()) == 12 * 40 + 1


def test_asyncio_keeps_its_own_compiled_parts() -> None:
    """An import of ``_asyncio`` before ``asyncio`` would leave ``asyncio`` in Python."""
    told = (
        "print(asyncio.Task.__module__, type(asyncio.current_task).__name__, type(asyncio.get_running_loop).__name__)"
    )
    assert program(f"import dhaga, asyncio; {told}") == program(f"import asyncio; {told}")


# ---- code that takes part in a park or wake


@running
def test_the_hook_of_wakes_sees_compiled_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    woken: list[Any] = []
    event = threading.Event()
    waiter = dhaga.spawn(event.wait, name="waiter")
    dhaga.sleep(0)
    monkeypatch.setattr(hooks, "on_wake", woken.append)
    event.set()
    waiter.join()
    assert waiter in woken


@running
def test_a_trace_function_sees_python_switch() -> None:
    """It sees them from the lap after it was set: coverage learns from calls and returns which greenlet runs."""
    lock, called = threading.Lock(), set()

    def trace(frame: Any, event: str, argument: object) -> None:
        called.add(frame.f_code.co_name)

    def body() -> None:
        with lock:  # the second waits for it: both begin in one lap
            dhaga.sleep(0.001)

    former = sys.gettrace()
    sys.settrace(trace)
    try:
        for each in [dhaga.spawn(body) for _ in range(2)]:
            each.join()
    finally:
        sys.settrace(former)
    assert {"body", "timed_sleep", "_wait_for_hand_over", "_park"} <= called


@running
def test_a_file_object_over_a_socket_reads_by_the_fast_path() -> None:
    """Its buffer has io.DEFAULT_BUFFER_SIZE: reads of http.client, PyMySQL and others are no larger."""
    called = set()

    def reads() -> None:
        with one.makefile("rb") as file:
            sys.setprofile(lambda frame, event, argument: called.add(frame.f_code.co_name) if event == "call" else None)
            try:
                assert file.readline() == b"a\n"
            finally:
                sys.setprofile(None)

    one, other = socket.socketpair()
    with one, other:
        reader = dhaga.spawn(reads)
        dhaga.sleep(0)
        other.sendall(b"a\n")
        reader.result()
    assert "readinto" in called and "recv_into" not in called


@running
def test_an_error_of_a_wake_comes_out_of_the_park() -> None:
    def waits() -> None:
        with pytest.raises(KeyError):
            dhaga.park("test")

    waiter = dhaga.spawn(waits)
    dhaga.sleep(0)
    assert waiter.wake(error=KeyError("x"))
    waiter.result()


@running
def test_a_subclass_has_its_own_methods_called() -> None:
    class Counting(threading.Lock):
        handed = 0

        def _hand_over(self) -> bool:
            self.handed += 1
            return bool(super()._hand_over())

    lock = Counting()
    with lock:
        waiter = dhaga.spawn(lock.acquire)
        dhaga.sleep(0)
    waiter.join()
    assert lock.handed == 1


@running
def test_a_slot_without_a_value_is_no_crash() -> None:
    class Bare(queue.Queue[int]):
        pass

    for new in (threading.Lock, threading.RLock, threading.Event, queue.Queue, Bare):
        half_made: Any = new.__new__(new)
        for name in ("acquire", "release", "__enter__", "set", "wait", "put", "get"):
            method = getattr(half_made, name, None)
            if method is not None:
                with pytest.raises((AttributeError, TypeError, RuntimeError)):
                    method(1) if name == "put" else method()


@running
def test_methods_refuse_what_is_no_object_of_their_class() -> None:
    for owner, name in METHODS:
        with pytest.raises(TypeError):
            getattr(owner, name)(object())


@running
def test_the_usual_calls_never_come_to_a_python_twin() -> None:
    """Else a class that is not recognized would be slow, and no test would notice."""
    trustme = pytest.importorskip("trustme")
    authority = trustme.CA()
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("localhost").configure_cert(server)
    authority.configure_trust(client)
    near, far = socket.socketpair()
    accepted = dhaga.spawn(server.wrap_socket, near, server_side=True)
    there = client.wrap_socket(far, server_hostname="localhost")
    here = accepted.result()
    one, other = socket.socketpair()
    lock, rlock, event = threading.Lock(), threading.RLock(), threading.Event()
    permits, few = threading.Semaphore(), threading.BoundedSemaphore()
    items, simple = queue.Queue[int](), queue.SimpleQueue[int]()
    twins = {each.__code__: each.__qualname__ for each in compiled.python_functions.values()}
    entered: list[str] = []

    def use() -> None:
        with lock, rlock, permits, few:
            dhaga.sleep(0)
        items.put(1)
        simple.put(1)
        items.get()
        simple.get()
        one.sendall(b"bytes")
        other.send(other.recv(5))
        one.recv_into(bytearray(5))
        one.send(b"bytes", socket.MSG_DONTWAIT)
        other.recv(5)
        here.write(b"bytes")
        there.write(there.read(5))
        here.recv(5)
        event.set()
        event.wait()

    def note(frame: Any, kind: str, argument: object) -> None:
        if kind == "call" and frame.f_code in twins:
            entered.append(twins[frame.f_code])

    def body() -> None:
        use()
        for each in (one, other, here, there):
            each.sends_until_check = 100  # at 1 the twin looks at the turn's clock; the first count depends on the fd
        former = sys.getprofile()
        sys.setprofile(note)
        try:
            use()
        finally:
            sys.setprofile(former)

    with one, other, here, there:
        dhaga.spawn(body).result()
    assert entered == []


# ---- start and end


@running
def test_a_function_without_a_compiled_twin_is_refused() -> None:
    assert isinstance(accelerator.fast_paths, ModuleType)
    for owner, name in ((threading.Lock, "locked"), ("module", "park")):
        with pytest.raises(TypeError, match="no compiled twin"):
            accelerator.fast_paths.twin(owner, name, program, "")
    with pytest.raises(TypeError, match="no compiled twin"):  # this twin is another function's
        accelerator.fast_paths.twin(threading.Lock, "release", program, "")
    for other in (int, type("Lock", (), {"release": program})):
        with pytest.raises(TypeError, match="no class that the fast paths know"):
            accelerator.fast_paths.layout(other)
        with pytest.raises(TypeError, match="no class that the fast paths know"):
            accelerator.fast_paths.twin(other, "release", program, "")


UNFIT = """
import importlib, warnings
own_import, calls = importlib.import_module, []

def unfit_import(name, *package):
    part = own_import(name, *package)
    if name == "._fast_paths":
        own, part.{function} = part.{function}, lambda *call: calls.append(call) or refuse() or own(*call)
    return part

def refuse():
    if len(calls) == {count}:
        raise TypeError("there is no compiled twin")

importlib.import_module = unfit_import
with warnings.catch_warnings(record=True) as said:
    warnings.filterwarnings("always", "dhaga runs")
    import dhaga, dhaga.queue, dhaga.socket, dhaga.ssl, dhaga.threading, dhaga.time
print(*(each.message for each in said))
from dhaga._kernel.fast import accelerator, compiled
print(accelerator.describe().rpartition("fast paths: ")[2], compiled.python_functions)
import gc
from types import MethodDescriptorType
classes = [c for c in gc.get_objects() if isinstance(c, type) and c.__module__.startswith("dhaga.")]
print([c for c in classes for m in vars(c).values() if isinstance(m, MethodDescriptorType) and m.__objclass__ is c])
lock, items = dhaga.threading.Lock(), dhaga.queue.Queue(1)
def work(n):
    with lock:
        dhaga.sleep(0)
        items.put(n)
with dhaga.Scheduler() as other:
    all = [each.spawn(work, n) for n in range(20) for each in (other, dhaga.current().scheduler)]
    print(sum(items.get() for _ in all))
    for each in all: each.join()
"""


@running
@pytest.mark.parametrize(
    ("function", "count"), [("layout", 1), ("layout", 3), *(("twin", n) for n in (1, 2, 20, 40, 45))]
)
def test_compiled_code_that_does_not_fit_is_left_with_a_warning(function: str, count: int) -> None:
    why = "there is no compiled twin"
    assert program(UNFIT.format(function=function, count=count)).splitlines() == [
        f"dhaga runs in pure Python, because its compiled part does not fit: {why}; install dhaga again",
        f"not usable: {why}) {{}}",
        "[]",
        "380",
    ]


@running
@pytest.mark.parametrize("name", sorted({module for module, _ in COMPILED}))
def test_a_module_that_is_loaded_anew_goes_on_as_in_python(name: str) -> None:
    """A module of the kernel need only load: two copies of a kernel's module do not go together."""
    told = program(f"""
import importlib, os
import dhaga
from dhaga import queue, socket, ssl, threading
before = threading.Semaphore(), queue.Queue(), threading.RLock(), threading.Event()
importlib.reload(importlib.import_module({name!r}))
told = [b"loaded\\n"]
after = queue.Queue(), threading.RLock(), threading.Semaphore()
try:
    for items in (before[1], after[0]):
        getter = dhaga.spawn(items.get)
        dhaga.sleep(0.001)
        items.put(b"item\\n")
        told.append(getter.result())
    with before[0], before[2], before[2], after[1], after[1], after[2]:
        before[3].set()
    near, far = socket.socketpair()
    reader = dhaga.spawn(near.recv, 100)
    dhaga.sleep(0.001)
    far.sendall(b"bytes")
    told.append(b"%r %r\\n" % (reader.result(), before[3].wait()))
finally:
    os.write(1, b"".join(told))
    os._exit(0)
""")
    assert told == "loaded\nitem\nitem\nb'bytes' True\n" or (name.startswith("dhaga._kernel.") and told[:6] == "loaded")


@running
def test_frozen_at_exit_locks_go_on_by_python() -> None:
    assert program("""
import dhaga
from dhaga import threading
from dhaga._kernel.fast import compiled
lock, rlock, event = threading.Lock(), threading.RLock(), threading.Event()
compiled.freeze()
with lock, rlock, rlock:
    event.set()
print(event.wait(), lock.locked(), rlock)
""").startswith("True False <RLock unlocked")


FED = ("event", "queue", "simple", "socket")


@running
@pytest.mark.parametrize(
    "how", ["lock", "contended", "permit", "event", "queue", "simple", "sleep", "timed", "join", "socket", "closed"]
)
def test_nothing_leaks(how: str) -> None:
    lock, event, items = threading.Lock(), threading.Event(), queue.Queue[object]()
    permits, simple = threading.BoundedSemaphore(1), queue.SimpleQueue[object]()
    near, far = socket.socketpair()
    closed, room = socket.socket(), bytearray(10)
    closed.close()

    def many(count: int) -> None:
        for _ in range(count):
            if how in ("lock", "contended"):
                with lock:
                    if how == "contended":
                        dhaga.sleep(0)
            elif how == "event":
                event.wait()
                event.clear()
            elif how == "permit":
                with permits:
                    dhaga.sleep(0)
            elif how == "queue":
                items.get()
            elif how == "simple":
                simple.get()
            elif how == "timed":
                dhaga.sleep(1e-6)
                with pytest.raises(queue.Empty):
                    items.get(timeout=1e-6)
            elif how == "join":
                dhaga.spawn(dhaga.sleep, 0).join()
            elif how == "socket":
                assert near.recv(10) and near.recv_into(room)
            elif how == "closed":
                with pytest.raises(OSError):
                    closed.recv(10)
                with pytest.raises(OSError):
                    closed.sendall(b"x")
            else:
                dhaga.sleep(0)

    def feed(count: int) -> None:
        for _ in range(count):
            if how == "event":
                event.set()
            elif how == "queue":
                items.put(object())
            elif how == "simple":
                simple.put(object())
            else:
                far.sendall(bytes(10))
                far.send(bytes(10))
            dhaga.sleep(0)

    def run(count: int) -> int:
        for each in [dhaga.spawn(many, count), dhaga.spawn(feed if how in FED else many, count)]:
            each.join()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        run(200)
        before = run(2000)
        assert run(2000) - before < 2000
    finally:
        tracemalloc.stop()
        near.close()
        far.close()
