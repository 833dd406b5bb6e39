"""What locks, their like and sockets say of themselves under the patch."""

from __future__ import annotations

import re

from tests.kit.scripts import prints

PROGRAM = """
    import dhaga.monkey
    dhaga.monkey.patch()
    import threading, time

    lock, event = threading.Lock(), threading.Event()

    def wait():
        event.wait()
        with lock:
            pass

    lock.acquire()
    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.01)
    print(lock, event, sep="\\n")
    event.set()
    time.sleep(0.01)
    print(lock, event, sep="\\n")
    lock.release()
    thread.join()
    barrier = threading.Barrier(2)
    for thing in (lock, threading.RLock(), threading.Semaphore(2), threading.BoundedSemaphore(3), barrier):
        print(thing)
    barrier.abort()
    print(barrier)
    dhaga.monkey.unpatch()
    print(lock, event, barrier, sep="\\n")
"""


def test_reprs_under_the_patch_begin_and_end_as_the_standards() -> None:
    assert [re.sub("0x[0-9a-f]+", "X", line) for line in prints(PROGRAM)] == [
        "<locked threading.Lock object at X: held by main code, 0 parked>",
        "<threading.Event at X, 1 parked: unset>",
        "<locked threading.Lock object at X: held by main code, 1 parked>",
        "<threading.Event at X, 0 parked: set>",
        "<unlocked threading.Lock object at X: 0 parked>",
        "<unlocked threading.RLock object count=0 at X: 0 parked>",
        "<threading.Semaphore at X, 0 parked: value=2>",
        "<threading.BoundedSemaphore at X, 0 parked: value=3/3>",
        "<threading.Barrier at X: waiters=0/2>",
        "<threading.Barrier at X: broken>",
        "<Lock unlocked, 0 parked>",
        "<Event set, 0 parked>",
        "<Barrier broken>",
    ]


def test_sockets_say_under_the_patch_what_the_standards_say() -> None:
    lines = prints("""
    import warnings
    import dhaga.monkey
    dhaga.monkey.patch()
    import socket, ssl

    class Mine(socket.socket):
        pass

    with socket.socket() as plain, Mine() as mine:
        print(plain, mine, sep="\\n")
    with socket.socketpair()[0] as one:
        print(ssl.create_default_context().wrap_socket(one, server_hostname="x", do_handshake_on_connect=False))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        socket.socket()
    print(*(warning.message for warning in caught))
    dhaga.monkey.unpatch()
    print(plain)
    """)
    beginnings = ["<socket.socket ", "<__main__.Mine ", "<ssl.SSLSocket ", "unclosed <socket.socket ", "<dhaga.socket."]
    assert [line[: len(start)] for line, start in zip(lines, beginnings, strict=True)] == beginnings


def test_rlock_is_in_the_module_that_the_standards_is_in_and_both_locks_can_be_pickled_as_classes() -> None:
    assert prints("""
    import pickle
    import dhaga.monkey
    from dhaga.threading import Lock, RLock
    before = RLock.__module__
    dhaga.monkey.patch()
    print(type(RLock()).__module__, pickle.loads(pickle.dumps([Lock, RLock])) == [Lock, RLock])
    dhaga.monkey.unpatch()
    print(RLock.__module__ == before)
    """) == ["_thread True", "True"]
