"""What locks and their like say of themselves under the patch."""

from __future__ import annotations

import re

from tests.scripts import prints

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
        "<unlocked threading.RLock object at X: 0 parked>",
        "<threading.Semaphore at X, 0 parked: value=2>",
        "<threading.BoundedSemaphore at X, 0 parked: value=3/3>",
        "<threading.Barrier at X: waiters=0/2>",
        "<threading.Barrier at X: broken>",
        "<Lock unlocked, 0 parked>",
        "<Event set, 0 parked>",
        "<Barrier broken>",
    ]
