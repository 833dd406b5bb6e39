"""Eight statements, false under gevent 26.9, that must hold here: each names a test, which runs a patched program.

The programs make native threads by ``dhaga.monkey.original("threading", "Thread")``.
"""

from __future__ import annotations

import sys

from tests.kit.scripts import prints, run

PATCHED = """
    import dhaga.monkey
    dhaga.monkey.patch()
    import asyncio, contextvars, os, queue, sys, threading, time
    import dhaga
    NativeThread = dhaga.monkey.original("threading", "Thread")
    native_sleep = dhaga.monkey.original("time", "sleep")
"""


def test_a_queue_fed_from_a_native_thread_wakes_a_dhaga_within_1_ms() -> None:
    """The median of 40 wakes, in the best of five attempts; on an idle machine it is below 0.2 ms.

    On a busy machine OS threads also wake later than within 1 ms: the median may be five times theirs.
    """
    assert prints(
        PATCHED
        + """
    def median(fifo, Thread, rounds=40):
        taken = []

        def takes():
            for _ in range(rounds):
                put = fifo.get()
                taken.append(time.perf_counter() - put)

        def feeds():
            for _ in range(rounds):
                native_sleep(0.002)
                fifo.put(time.perf_counter())

        consumer = Thread(target=takes)
        consumer.start()
        time.sleep(0.01)
        NativeThread(target=feeds).start()
        consumer.join()
        return sorted(taken)[rounds // 2]

    def usual():
        return median(dhaga.monkey.original("queue", "SimpleQueue")(), NativeThread)

    for kind in (queue.Queue, queue.SimpleQueue):
        print(any(median(kind(), threading.Thread) < max(0.001, 5 * usual()) for _ in range(5)))
    """
    ) == ["True", "True"]


def test_cancel_from_a_native_thread_is_delivered() -> None:
    assert prints(
        PATCHED
        + """
    def waits(how):
        try:
            how()
        except dhaga.Cancelled as cancelled:
            print("cancelled:", cancelled.reason)
            raise

    def cancel(victim, reason):
        native_sleep(0.02)
        victim.cancel(reason)

    waits_of = {"event": threading.Event().wait, "sleep": lambda: time.sleep(60), "get": queue.Queue().get}
    for name, how in waits_of.items():
        victim = threading.Thread(target=waits, args=(how,))
        victim.start()
        NativeThread(target=cancel, args=(victim, name)).start()
        victim.join(10)
        print(victim.is_alive())
    """
    ) == ["cancelled: event", "False", "cancelled: sleep", "False", "cancelled: get", "False"]


def test_event_wait_while_only_a_native_thread_can_set_it_waits() -> None:
    """gevent raises LoopExit, because its thread has nothing else to do."""
    assert prints(
        PATCHED
        + """
    event = threading.Event()

    def sets():
        native_sleep(0.1)
        event.set()

    NativeThread(target=sets).start()
    print(event.wait())
    event.clear()
    NativeThread(target=sets).start()
    waiter = threading.Thread(target=lambda: print(event.wait(10)))
    waiter.start()
    waiter.join()
    """
    ) == ["True", "True"]


def test_two_dhagas_run_asyncio_code_at_once() -> None:
    assert prints(
        PATCHED
        + """
    both = threading.Barrier(2)
    begun = []

    async def main(name):
        begun.append(name)
        await asyncio.sleep(0.05)
        async with asyncio.timeout(5):
            await asyncio.gather(*(asyncio.sleep(0.01) for _ in range(3)))
        print(len(begun), asyncio.current_task() is not None)
        return name

    def runs(name):
        both.wait(5)
        results.append(asyncio.run(main(name)))

    results = []
    threads = [threading.Thread(target=runs, args=(name,)) for name in ("one", "two")]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    print(sorted(results))
    """
    ) == ["2 True", "2 True", "['one', 'two']"]


def test_context_variables_reach_a_spawned_dhaga_and_no_thread() -> None:
    assert prints(
        PATCHED
        + """
    request = contextvars.ContextVar("request", default="none")
    request.set("seven")

    def tells():
        print(request.get())
        request.set("its own")

    dhaga.spawn(tells).join()
    thread = threading.Thread(target=tells)
    request.set("eight")
    thread.start()
    thread.join()
    print(request.get())
    """
    ) == ["seven", "eight" if getattr(sys.flags, "thread_inherit_context", False) else "none", "eight"]


def test_a_cancelled_parent_scope_cancels_its_children() -> None:
    assert prints(
        PATCHED
        + """
    begun = []

    def child(name):
        begun.append(name)
        try:
            time.sleep(60)
        finally:
            print(name, "ends")

    def parent():
        with dhaga.Scope() as scope:
            for name in ("one", "two"):
                scope.spawn(child, name)
            scope.spawn(grandparent)

    def grandparent():
        with dhaga.Scope() as scope:
            scope.spawn(child, "three")

    whole = dhaga.spawn(parent)
    while len(begun) < 3:
        time.sleep(0.001)
    whole.cancel("enough")
    try:
        whole.result()
    except dhaga.Cancelled as cancelled:
        print(cancelled.reason)
    """
    ) == ["one ends", "two ends", "three ends", "enough"]


def test_after_fork_the_child_does_not_run_the_parents_dhagas() -> None:
    assert prints(
        PATCHED
        + """
    ran = []

    def counts():
        for _ in range(3):
            time.sleep(0.02)
            ran.append(os.getpid())

    parents = [threading.Thread(target=counts) for _ in range(5)]
    for thread in parents: thread.start()
    time.sleep(0.01)
    child = os.fork()
    if not child:
        ran.clear()
        time.sleep(0.1)
        own = threading.Thread(target=lambda: ran.append("own"))
        own.start()
        own.join()
        print(ran, [thread.is_alive() for thread in parents], threading.active_count(), flush=True)
        os._exit(0)
    print(os.waitpid(child, 0)[1])
    for thread in parents: thread.join()
    print(len(ran), set(ran) == {os.getpid()})
    """
    ) == ["['own'] [False, False, False, False, False] 1", "0", "15 True"]


def test_a_deadlock_report_names_who_waits_for_what_and_who_holds_it() -> None:
    outcome = run(
        PATCHED
        + """
    first, second = threading.Lock(), threading.Lock()
    both_hold = threading.Barrier(2)

    def takes(mine, other):
        with mine:
            both_hold.wait()
            with other:
                pass

    one = threading.Thread(target=takes, args=(first, second), name="one", daemon=True)
    two = threading.Thread(target=takes, args=(second, first), name="two", daemon=True)
    one.start(), two.start()
    one.join()
    """
    )
    assert outcome.status == 1
    told = outcome.err.partition("Deadlock")[2]
    for who, holder in (("one", "two"), ("two", "one")):
        assert [
            line for line in told.splitlines() if who in line and "lock.acquire" in line and f"held by {holder}" in line
        ]
