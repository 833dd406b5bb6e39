"""A program that hangs says why, from its first line on: each primitive, in each world, before and after a spawn."""

from __future__ import annotations

import json
import signal

import pytest

from tests.kit.scripts import Program, prints

# How the report names a wait, and code that waits for what never comes.
OF_THREADS = {
    "queue.get": "queue.Queue().get()",
    "queue.put": "full = queue.Queue(1); full.put(1); full.put(2)",
    "queue.join": "undone = queue.Queue(); undone.put(1); undone.join()",
    "lock.acquire on <": "lock = threading.Lock(); lock.acquire(); lock.acquire()",
    "semaphore.acquire": "threading.Semaphore(0).acquire()",
    "event.wait": "threading.Event().wait()",
    "condition.wait": "condition = threading.Condition(); condition.acquire(); condition.wait()",
    "barrier.wait": "threading.Barrier(2).wait()",
    "queue.get on <SimpleQueue": "queue.SimpleQueue().get()",
}
# Options of Python, how the world imports its primitives, and what waits there.
WORLDS = {
    "imported": (
        [],
        "from dhaga import futures, queue, threading",
        OF_THREADS | {"future.result": "futures.Future().result()"},
    ),
    "patched": (
        ["-m", "dhaga"],
        "import queue, threading; from concurrent import futures",
        OF_THREADS | {"condition.wait on <Condition": "futures.Future().result()"},
    ),
    "gevent": (
        ["-m", "dhaga", "--as", "gevent"],
        "import gevent; from gevent import event, lock, pool, queue",
        {
            "queue.get": "queue.Queue().get()",
            "queue.put": "full = queue.Queue(1); full.put(1); full.put(2)",
            "queue.join": "undone = queue.JoinableQueue(); undone.put(1); undone.join()",
            "semaphore.acquire": "lock.Semaphore(0).acquire()",
            "event.wait": "event.Event().wait()",
            "result.get": "event.AsyncResult().get()",
            "gevent hub": "gevent.get_hub().switch()",
            "join on <Greenlet": "gevent.spawn(event.Event().wait).join()",
            "condition.wait": "queue.Channel().get()",
            "queue.get on <SimpleQueue": "gevent.wait([event.Event()])",
            "semaphore.acquire on <": "full = pool.Pool(1); full.spawn(event.Event().wait); full.spawn(int)",
            "event.wait on <": "full = pool.Pool(1); full.spawn(event.Event().wait); full.join()",
        },
    ),
    "eventlet": (
        ["-m", "dhaga", "--as", "eventlet"],
        "import eventlet; from eventlet import event, pools, queue, semaphore",
        {
            "queue.get": "queue.Queue().get()",
            "queue.put": "full = queue.Queue(1); full.put(1); full.put(2)",
            "event.wait on <": "undone = queue.Queue(); undone.put(1); undone.join()",
            "event.wait": "event.Event().wait()",
            "semaphore.acquire": "semaphore.Semaphore(0).acquire()",
            "join on <Dhaga": "eventlet.spawn(event.Event().wait).wait()",
            "queue.get on Getters": "full = pools.Pool(max_size=1, create=int); full.get(); full.get()",
            "event.wait on <threading.Event": "g = eventlet.GreenPool(); g.spawn(event.Event().wait); g.waitall()",
        },
    ),
}
# Where the wait is made.
PLACES = {
    "first line": "",
    "after a spawn": "dhaga.spawn(int).join()",
    "thread": "def wait_for(code): dhaga.spawn(exec, code, globals(), name='waiting', daemon=True).join()",
}
HANG = """
import json
import dhaga
wait_for = exec
{before}
reports = {{}}
for name, code in {waits!r}.items():
    try:
        wait_for(code)
    except dhaga.Deadlock as error:
        reports[name] = str(error)
print(json.dumps(reports))
"""


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("world", WORLDS)
def test_a_wait_that_nothing_could_end_is_a_deadlock_that_names_it(world: str, place: str) -> None:
    options, imports, waits = WORLDS[world]
    (line,) = prints(imports + HANG.format(before=PLACES[place], waits=waits), *options)
    reports = json.loads(line)
    who = "waiting" if place == "thread" else "main code"
    unnamed = [name for name in waits if f"  {who}: waits for {name}" not in reports.get(name, "")]
    assert not unnamed, reports


# ---- no false alarm on the first line


@pytest.mark.long("the detector looks again each second")
def test_a_thread_that_could_still_wake_main_code_is_waited_for() -> None:
    """One of each kind: blocked in C, just made and not yet running, with a loop, with a scheduler that sleeps."""
    assert (
        prints("""
        import _thread, asyncio, threading, time
        import dhaga
        from dhaga.threading import Event

        def wait_beside(start):
            event = Event()
            start(lambda: (time.sleep(0.5), event.set()))
            print(event.wait())

        async def later(end):
            await asyncio.sleep(0.5)
            end()

        wait_beside(lambda end: threading.Thread(target=end).start())
        wait_beside(lambda end: _thread.start_new_thread(end, ()))
        wait_beside(lambda end: threading.Thread(target=asyncio.run, args=(later(end),)).start())
        with dhaga.Scheduler() as scheduler:
            wait_beside(lambda end: scheduler.spawn(lambda: (dhaga.sleep(0.5), end())))
    """)
        == ["True"] * 4
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("module", ["signal", "dhaga.signal"])
def test_a_signal_handler_that_could_still_wake_main_code_is_waited_for(module: str, number: int) -> None:
    program = Program(f"""
        import {module} as signal
        from dhaga import threading
        event = threading.Event()
        signal.signal({number}, lambda *_: event.set())
        assert not event.wait(0.5)
        print("waits")
        print(event.wait())
    """)
    outcome = program.interrupt_at("waits", number).outcome()
    assert (outcome.lines, outcome.err) == (["True"], ""), outcome


def test_another_process_that_could_still_wake_main_code_is_waited_for() -> None:
    assert prints("""
        import dhaga.monkey
        dhaga.monkey.patch()
        import multiprocessing, os, time
        ours = multiprocessing.get_context("fork")
        event, queue, (read, write) = ours.Event(), ours.Queue(), os.pipe()

        def child():
            time.sleep(0.5)
            event.set()
            time.sleep(0.5)
            queue.put("item")
            time.sleep(0.5)
            os.write(write, b"byte")

        process = ours.Process(target=child)
        process.start()
        print(event.wait(), queue.get(), os.read(read, 4))
        process.join()
    """) == ["True item b'byte'"]


def test_ctrl_c_still_ends_a_wait_beside_a_thread() -> None:
    program = Program("""
        import threading, time
        from dhaga.threading import Event
        event = Event()
        def beside():
            while "1 parked" not in repr(event):
                time.sleep(0.001)
            print("waits")
            threading.Event().wait()
        threading.Thread(target=beside, daemon=True).start()
        try:
            event.wait()
        except KeyboardInterrupt:
            print("interrupted")
    """)
    assert program.interrupt_at("waits").outcome().lines == ["interrupted"]
