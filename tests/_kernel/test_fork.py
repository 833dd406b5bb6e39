"""Fork: the child has no dhaga of the parent's and runs no line of theirs; the parent does not notice."""

from __future__ import annotations

import signal

import pytest

from tests.kit.scripts import prints, run

START = """
import os, signal, sys, threading, time, warnings
import dhaga

warnings.filterwarnings("ignore", "This process .* is multi-threaded, use of fork")  # Python 3.12's, on any fork

PARENT = os.getpid()

def say(*words):
    print(*words, "in the parent" if os.getpid() == PARENT else "in the child", flush=True)

def sleeper(seconds=1000):
    try:
        dhaga.sleep(seconds)
    finally:
        say("finally")

def status_of(pid):
    return os.waitstatus_to_exitcode(dhaga.offload(os.waitpid, pid, 0)[1])

"""


def test_a_child_starts_dhagas_of_its_own_and_knows_the_parents_as_ended() -> None:
    assert prints(
        START
        + """if True:
        d = dhaga.spawn(sleeper, name="sleeper")
        dhaga.sleep(0.01)
        pid = os.fork()
        if not pid:
            say(d.is_alive(), d.cancel(), d.wake())
            say(dhaga.spawn(lambda: dhaga.sleep(0.01) or "joined").result())
            dhaga.spawn(lambda: dhaga.sleep(0.01) or say("waited for at exit"))
            sys.exit(5)
        say("status", status_of(pid))
        say("alive:", d.is_alive())
        d.cancel()
        d.join()
    """
    ) == [
        "False False False in the child",
        "joined in the child",
        "waited for at exit in the child",
        "status 5 in the parent",
        "alive: True in the parent",
        "finally in the parent",
    ]


def test_no_finally_of_the_parent_runs_at_the_childs_exit() -> None:
    """None runs in whichever way the child ends: greenlets that are dropped would run it."""
    assert prints(
        START
        + """if True:
        import gc
        d = dhaga.spawn(sleeper)
        dhaga.spawn(dhaga.sleep, 10, daemon=True)
        dhaga.sleep(0.01)
        for end in (sys.exit, gc.collect, lambda: os.kill(os.getpid(), signal.SIGINT), lambda: dhaga.spawn(sys.exit)):
            pid = os.fork()
            if not pid:
                sys.stderr = open(os.devnull, "w")
                end()
                break
            say(status_of(pid))
        else:
            d.cancel()
    """
    ) == [*["0 in the parent"] * 2, "-2 in the parent", "0 in the parent", "finally in the parent"]


def test_the_parent_does_not_notice_what_a_child_does_with_shared_sockets() -> None:
    """Parent and child share the epoll's registrations until the child closes its copy."""
    assert prints(
        START
        + """if True:
        import dhaga.socket as socket

        ours, theirs = socket.socketpair()
        other, far = socket.socketpair()

        def read():
            say(ours.recv(20))

        d = dhaga.spawn(read)
        dhaga.sleep(0.01)
        pid = os.fork()
        if not pid:
            other.settimeout(0.05)
            try:
                other.recv(10)
            except TimeoutError:
                say("nothing to read")
            ours.close()
            far.send(b"far")
            say(other.recv(10))
            theirs.close()
            os._exit(0)
        say("status", status_of(pid))
        theirs.send(b"still watched")
        d.join()
    """
    ) == [
        "nothing to read in the child",
        "b'far' in the child",
        "status 0 in the parent",
        "b'still watched' in the parent",
    ]


@pytest.mark.parametrize("end", ["return", "sys.exit(3)", "raise ValueError", "signal.raise_signal(signal.SIGINT)"])
def test_a_fork_within_a_dhaga_goes_on_in_it_alone_and_ends_with_it(end: str) -> None:
    """This holds whether the dhaga parks in the child or not. The parent's main code does not run in the child."""
    status = {"return": 0, "sys.exit(3)": 3, "raise ValueError": 1}.get(end, -signal.SIGINT)
    outcome = run(
        START
        + f"""if True:
        def forks(parks):
            pid = os.fork()
            if not pid:
                if parks:
                    say(dhaga.spawn(lambda: dhaga.sleep(0.01) or "joined").result())
                    dhaga.spawn(lambda: dhaga.sleep(0.1) or say("waited for"))
                    dhaga.spawn(sleeper, daemon=True)
                    dhaga.sleep(0)
                {end}
            say("status", status_of(pid))

        d = dhaga.spawn(sleeper)
        dhaga.sleep(0.01)
        for parks in (True, False):
            dhaga.spawn(forks, parks, name="forks").join()
            say("main code")
        d.cancel()
    """
    )
    waits = ["waited for in the child"] if status >= 0 else []
    assert outcome.lines == [
        "joined in the child",
        *waits,
        "finally in the child",
        f"status {status} in the parent",
        "main code in the parent",
        f"status {status} in the parent",
        "main code in the parent",
        "finally in the parent",
    ]
    assert outcome.status == 0
    assert ("forks ended with an uncaught error" in outcome.err) == ("ValueError" in end)


def test_system_exit_and_deadlock_find_the_main_code_of_a_child_forked_in_a_dhaga() -> None:
    """The child's main code is the dhaga that has forked; after its end the exit status is still open."""
    assert prints(
        START
        + """if True:
        def stuck():
            try:
                dhaga.park("nothing")
            except dhaga.Deadlock as deadlock:
                say(str(deadlock).splitlines()[1].strip())

        def told_to_exit():
            dhaga.spawn(sys.exit, 6)
            dhaga.sleep(1000)

        def ends_first():
            dhaga.spawn(lambda: dhaga.sleep(0.01) or sys.exit(7))

        def forks(child):
            pid = os.fork()
            if not pid:
                return child()
            say("status", status_of(pid))

        for child in (stuck, told_to_exit, ends_first):
            dhaga.spawn(forks, child).join()
    """
    ) == ["main code: waits for nothing in the child", *[f"status {n} in the parent" for n in (0, 6, 7)]]


def test_a_fork_in_a_plain_thread_or_a_coroutine_finds_main_code_there() -> None:
    assert prints(
        START
        + """if True:
        import asyncio

        def forks(where):
            pid = os.fork()
            if not pid:
                say(where, dhaga.spawn(lambda: dhaga.sleep(0.01) or "joined").result())
                sys.stdout.flush()
                os._exit(4)
            say("status", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

        async def main():
            d = dhaga.spawn(sleeper)
            await asyncio.sleep(0.01)
            forks("coroutine:")
            d.cancel()
            await dhaga.aio.run_in_dhaga(d.join)

        d = dhaga.spawn(sleeper)
        dhaga.sleep(0.01)
        thread = threading.Thread(target=forks, args=("thread:",))
        thread.start()
        thread.join()
        asyncio.run(main())
        d.cancel()
    """
    ) == [
        "thread: joined in the child",
        "status 4 in the parent",
        "coroutine: joined in the child",
        "status 4 in the parent",
        "finally in the parent",
        "finally in the parent",
    ]


def test_a_fork_beside_a_scheduler_with_a_thread_of_its_own() -> None:
    """In the child the scheduler has stopped; in the parent it goes on."""
    assert prints(
        START
        + """if True:
        def in_child(scheduler, d):
            say(d.is_alive())
            scheduler.stop()
            try:
                scheduler.spawn(int)
            except RuntimeError:
                say("stopped")
            with dhaga.Scheduler() as another:
                say(another.spawn(lambda: dhaga.sleep(0.01) or "joined").result())

        with dhaga.Scheduler("own") as scheduler:
            d = scheduler.spawn(sleeper)
            while not d.parked:
                time.sleep(0.001)
            pid = os.fork()
            if not pid:
                in_child(scheduler, d)
                sys.exit(0)
            say("status", status_of(pid))
            d.cancel()
            d.join()
            say(scheduler.spawn(lambda: "alive").result())
    """
    ) == [
        "False in the child",
        "stopped in the child",
        "joined in the child",
        "status 0 in the parent",
        "finally in the parent",
        "alive in the parent",
    ]


def test_primitives_held_over_a_fork() -> None:
    """The forking dhaga still holds its locks, and no waiter of the parent's takes anything in the child."""
    assert prints(
        START
        + """if True:
        from dhaga.queue import Queue
        from dhaga.threading import Event, Lock, RLock, Semaphore

        lock, rlock, semaphore, queue, event = Lock(), RLock(), Semaphore(0), Queue(), Event()

        def thread():
            with lock:
                pass

        def child():
            lock.release()
            say("the lock is free:", lock.acquire(timeout=0))
            rlock.release()
            semaphore.release()
            say("the permit is there:", semaphore.acquire(timeout=0))
            queue.put(1)
            say("the item is there:", queue.get(timeout=0))
            event.set()

        def forks():
            lock.acquire()
            rlock.acquire()
            waits = [[lock.acquire], [rlock.acquire], [semaphore.acquire], [queue.get], [event.wait]]
            parked = [dhaga.spawn(*wait) for wait in [*waits, [lock.acquire, True, 10]]]
            os_thread = threading.Thread(target=thread, daemon=True)
            os_thread.start()
            dhaga.sleep(0.05)
            pid = os.fork()
            if not pid:
                return child()
            say("status", status_of(pid))
            lock.release()
            rlock.release()
            semaphore.release()
            queue.put(1)
            event.set()
            for d in parked[:5]:
                d.join()
            parked[5].cancel()
            say("all served")

        dhaga.spawn(forks).join()
    """
    ) == [
        "the lock is free: True in the child",
        "the permit is there: True in the child",
        "the item is there: 1 in the child",
        "status 0 in the parent",
        "all served in the parent",
    ]


@pytest.mark.parametrize("waiters", ["dhagas", "dhagas of a thread", "in a dhaga"])
def test_what_was_handed_to_waiters_that_had_no_turn_is_free_in_the_child(waiters: str) -> None:
    """As with OS threads: a lock that nobody has begun to hold is free, and an item that nobody got is in the queue."""
    assert prints(
        START
        + f"""if True:
        from dhaga.queue import LifoQueue, PriorityQueue, Queue, SimpleQueue
        from dhaga.threading import Condition, Lock, RLock, Semaphore

        class OwnQueue(Queue):
            def _put(self, item):
                super()._put(item)

        lock, rlock, condition, bare = Lock(), RLock(), Condition(), Condition(Lock())
        semaphore, limiter, full = Semaphore(0), dhaga.CapacityLimiter(1), Queue(1)
        queues = [Queue(), LifoQueue(), PriorityQueue(), OwnQueue(), SimpleQueue()]
        full.put("first")

        def holds(lock):
            with lock:
                pass

        def waits(condition):
            with condition:
                condition.wait()

        def child():
            say(*[each.acquire(False) for each in (lock, rlock, condition, bare, semaphore, limiter)])
            say(semaphore.acquire(False))
            for queue in queues:
                say(queue.qsize(), [queue.get(False), queue.get(False)], queue.qsize())
            say(full.get(False), full.qsize())

        def forks():
            limiter.acquire()
            lock.acquire()
            rlock.acquire()
            calls = [[holds, lock], [holds, rlock], [holds, limiter], [semaphore.acquire], [full.put, "second"]]
            calls += [[waits, condition], [waits, bare], *[[queue.get] for queue in queues for _ in range(2)]]
            parked = [start(*call) for call in calls]
            while not all(each.parked for each in parked):
                dhaga.sleep(0.001)
            block()  # the other thread's dhagas get no turn before the fork
            for queue in queues:
                queue.put("a")
                queue.put("b")
            limiter.release()
            lock.release()
            rlock.release()
            semaphore.release()
            first = full.get()
            for each in condition, bare:
                with each:
                    each.notify()
            pid = os.fork()
            if not pid:
                return child()
            go_on.set()
            say("status", status_of(pid), first)
            for each in parked:
                each.join()

        start, block, go_on = dhaga.spawn, int, threading.Event()
        if "{waiters}" == "dhagas":
            forks()
        elif "{waiters}" == "in a dhaga":
            dhaga.spawn(forks).join()
        else:
            with dhaga.Scheduler("other") as other:
                start, blocked = other.spawn, threading.Event()

                def block():
                    other.call(lambda: [blocked.set(), go_on.wait()])
                    blocked.wait()

                forks()
    """
    ) == [
        "True True True True True True in the child",
        "False in the child",
        "2 ['a', 'b'] 0 in the child",
        "2 ['b', 'a'] 0 in the child",
        "2 ['a', 'b'] 0 in the child",
        "2 ['b', 'a'] 0 in the child",
        "2 ['a', 'b'] 0 in the child",
        "second 0 in the child",
        "status 0 first in the parent",
    ]


def test_what_stayed_in_the_parent_is_refused_at_once_in_the_child() -> None:
    """A wait for a dhaga of the parent would never end."""
    assert prints(
        START
        + """if True:
        import asyncio, re
        from dhaga.threading import Thread

        def refused(call, *args):
            try:
                say("not refused:", call(*args))
            except RuntimeError as error:
                say(re.sub(" (stopped|not started).*?>", ">", str(error)))

        async def awaits(d):
            await d

        d = dhaga.spawn(sleeper, name="sleeper")
        thread = Thread(target=sleeper, name="thread")
        thread.start()
        dhaga.sleep(0.01)
        mine, unstarted = dhaga.current().scheduler, dhaga.Scheduler("unstarted")
        with dhaga.Scheduler("running") as running:
            other = running.spawn(dhaga.park, "for good", name="other")
            pid = os.fork()
            if not pid:
                for each in (d, other):
                    refused(each.join)
                    refused(each.join, 0.01)
                    refused(each.result)
                    refused(asyncio.run, awaits(each))
                refused(mine.spawn, int)
                refused(running.spawn, int)
                refused(unstarted.start)
                say(thread.is_alive(), thread.join())  # as the standard has it
        if not pid:
            os._exit(0)
        say("status", status_of(pid))
        for each in (d, thread):
            each.cancel()
            each.join()
        unstarted.start().stop()
    """
    ) == [
        *["sleeper stayed in the parent process: wait for it there in the child"] * 4,
        *["other stayed in the parent process: wait for it there in the child"] * 4,
        "<Scheduler MainThread, left in the parent process,> is stopped: it takes no more dhagas in the child",
        "<Scheduler running, left in the parent process,> is stopped: it takes no more dhagas in the child",
        "<Scheduler unstarted> was made in the parent process: make another one after the fork in the child",
        "False None in the child",
        "status 0 in the parent",
        *["finally in the parent"] * 2,
    ]


@pytest.mark.parametrize("waiters", ["dhagas", "threads"])
@pytest.mark.parametrize("kind", ["Queue", "PriorityQueue", "OwnQueue"])
def test_those_who_wait_in_the_parent_neither_take_nor_give_in_the_child(kind: str, waiters: str) -> None:
    assert prints(
        START
        + f"""if True:
        from dhaga.queue import *

        class OwnQueue(Queue):
            def _put(self, item):
                super()._put(item)

        def start(fn, *args):
            if "{waiters}" == "threads":
                threading.Thread(target=fn, args=args).start()
            else:
                dhaga.spawn(fn, *args)

        empty, full = {kind}(), {kind}(1)
        full.put(1)
        for _ in range(2):
            start(empty.get)
            start(full.put, 2)
        while len(empty._getters_) + len(full._putters_) < 4:
            dhaga.sleep(0.001)
        pid = os.fork()
        if not pid:
            empty.put("item")
            say(empty.get(timeout=0), full.get(timeout=0), full.qsize())
            full.put(3, timeout=0)
            say(full.get(timeout=0))
            os._exit(0)
        say("status", status_of(pid))
        for _ in range(2):
            empty.put(1)
        say(*[full.get() for _ in range(3)])
    """
    ) == ["item 1 0 in the child", "3 in the child", "status 0 in the parent", "1 2 2 in the parent"]


def test_a_timeout_around_a_fork_holds_in_the_child() -> None:
    assert (
        prints(
            START
            + """if True:
        def forks(*_):
            try:
                with dhaga.Timeout(0.2):
                    pid = os.fork()
                    if pid:
                        return say("status", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
                    dhaga.sleep(1000)
            except TimeoutError as error:
                say(error)
                os._exit(0)

        forks()
        dhaga.spawn(forks).join()
    """
        )
        == ["not done within 0.2 s in the child", "status 0 in the parent"] * 2
    )


def test_multiprocessing_and_subprocess_work_beside_and_within_dhagas() -> None:
    """multiprocessing starts processes by fork and by spawn."""
    outcome = prints("""
        import multiprocessing, os, pathlib, runpy, subprocess, sys, tempfile

        program = '''
        import multiprocessing, subprocess, sys
        import dhaga

        def child(n):
            d = dhaga.spawn(lambda: dhaga.sleep(0.01) or 2 * n)
            dhaga.spawn(lambda: d.join() or dhaga.sleep(0.01) or print("waited for", flush=True))
            print("in the child", d.result(), flush=True)
            sys.exit(n)

        def start(method):
            process = multiprocessing.get_context(method).Process(target=child, args=(4,))
            process.start()
            process.join()
            print(method, process.exitcode, flush=True)

        def popen():
            pipes = dict(stdout=subprocess.PIPE, text=True)
            print(subprocess.run([sys.executable, "-c", "print(1)"], **pipes).stdout, end="", flush=True)

        if __name__ == "__main__":
            dhaga.spawn(dhaga.sleep, 1000, daemon=True)
            dhaga.sleep(0)
            for method in ("fork", "spawn"):
                start(method)
                dhaga.spawn(start, method).join()
            popen()
            dhaga.spawn(popen).join()
        '''
        import textwrap
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "program.py")
            path.write_text(textwrap.dedent(program))
            sys.exit(subprocess.run([sys.executable, str(path)]).returncode)
    """)
    assert outcome == [
        line for method in ("fork", "spawn") for line in ["in the child 8", "waited for", f"{method} 4"] * 2
    ] + ["1", "1"]


def test_a_child_hook_from_before_the_import_runs_no_dhaga_of_the_parent() -> None:
    """The hook is called before ours. In the parent such a hook may park, also in a dhaga that forks."""
    code = """
        import os, sys
        late = []
        def parks():
            late and late[0](0.001)
        os.register_at_fork(after_in_child=parks, after_in_parent=parks)
        import dhaga
        late.append(dhaga.sleep)
        sys.unraisablehook = lambda unraisable: print(type(unraisable.exc_value).__name__, flush=True)
        reader, writer = os.pipe()
        def work():
            while True:
                os.write(writer, b"%d\\n" % os.getpid())
                dhaga.sleep(0.001)
        def forks():
            pid = os.fork()
            if not pid:
                os._exit(0)
            os.waitpid(pid, 0)
            dhaga.sleep(0.003)
        for _ in range(3):
            dhaga.spawn(work, daemon=True)
        dhaga.sleep(0.005)
        forks()
        dhaga.spawn(forks).join()
        from dhaga._kernel.process.fork import diverted
        print({int(line) for line in os.read(reader, 60000).split()} == {os.getpid()}, diverted)
        os._exit(0)
    """
    assert prints(code, "-W", "ignore") == ["ParkError", "ParkError", "True {}"]
