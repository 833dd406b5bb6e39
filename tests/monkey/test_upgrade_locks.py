"""Locks and the like from before the patch: those of the program, of ``logging``, of an executor."""

from __future__ import annotations

from tests.kit.scripts import prints

BEFORE = """
    import concurrent.futures.thread, gc, io, logging, queue, threading, time

    class Box:
        lock = threading.Lock()
        __slots__ = ("own",)

    def closure():
        inner = threading.RLock()
        return lambda: inner

    lock, rlock, condition, event = threading.Lock(), threading.RLock(), threading.Condition(), threading.Event()
    on_lock, semaphore, barrier = threading.Condition(lock), threading.Semaphore(2), threading.Barrier(2)
    held, taken = threading.Lock(), threading.RLock()
    held.acquire(), taken.acquire()
    box, listed, in_tuple, inner = Box(), [threading.Lock()], (threading.Lock(),), closure()
    box.own = threading.RLock()
    fifo, simple, mine = queue.Queue(), queue.SimpleQueue(), threading.local()
    simple.put("kept"), fifo.put("kept")
    mine.value = "kept"
    handler = logging.StreamHandler(io.StringIO())

    def kinds():
        things = dict(
            lock=lock, rlock=rlock, condition=condition, on_lock=on_lock, event=event._cond, semaphore=semaphore._cond,
            barrier=barrier._cond, held=held, box=Box.lock, own=box.own, listed=listed[0], inner=inner(),
            mutex=fifo.mutex, not_empty=fifo.not_empty, simple=simple, mine=mine, handler=handler.lock,
            logging=logging._lock, executors=concurrent.futures.thread._global_shutdown_lock,
        )
        return {name for name, it in things.items() if is_ours(it)}, set(things)

    def is_ours(it):  # the classes of locks have the standard's __module__
        return type(it).__module__.startswith("dhaga.") or isinstance(it, dhaga._sync.lock.OwnedLock)

    import dhaga.monkey
    dhaga.monkey.patch()
"""


def test_what_is_there_becomes_ours_with_its_state_and_back() -> None:
    assert prints(
        BEFORE
        + """
    ours, there = kinds()
    print(sorted(there - ours), is_ours(in_tuple[0]), is_ours(taken))

    def states():
        return held.locked(), lock.locked(), mine.value, simple.qsize(), fifo.qsize(), on_lock._lock is lock, (
            fifo.not_full._lock is fifo.mutex), isinstance(condition, threading.Condition)

    print(states())
    dhaga.monkey.unpatch()
    print(sorted(kinds()[0]))
    print(states(), simple.get(), fifo.get())
    with condition, on_lock:
        condition.notify(), on_lock.notify()
    """
    ) == [
        "[] False False",
        "(True, False, 'kept', 1, 1, True, True, True)",
        "[]",
        "(True, False, 'kept', 1, 1, True, True, True) kept kept",
    ]


def test_all_attributes_of_an_object_become_ours() -> None:
    assert prints("""
        import queue, threading
        import dhaga.monkey

        class Box:
            def __init__(self):
                self.lock, self.queue, self.local = threading.Lock(), queue.SimpleQueue(), threading.local()

        box = Box()
        dhaga.monkey.patch()
        print(isinstance(box.lock, dhaga._sync.lock.OwnedLock), type(box.queue).__module__, type(box.local).__module__)
    """) == ["True dhaga._sync.simple_queue dhaga._sync.local"]


def test_a_thread_local_in_a_local_variable_is_left() -> None:
    assert prints("""
        import threading
        import dhaga.monkey

        class Box:
            local, other = threading.local(), threading.local()

        def patch(box):
            local = box.local
            dhaga.monkey.patch()
            return local

        box = Box()
        print(patch(box) is box.local, type(box.other).__module__)
    """) == ["True dhaga._sync.local"]


def test_a_thread_local_that_was_replaced_is_not_replaced_again() -> None:
    # A free-threaded build frees it at the next collection only, which a simulation puts off for many runs.
    assert prints("""
        import gc, threading
        import dhaga.monkey

        standard, kept = threading.local, [threading.local() for _ in range(3)]
        gc.disable()
        added = []
        for _ in range(5):
            before = sum(type(it) is standard for it in gc.get_objects())
            dhaga.monkey.patch(), dhaga.monkey.unpatch()
            added.append(sum(type(it) is standard for it in gc.get_objects()) - before)
        print(added[1:] == added[:1] * 4, len(kept))
    """) == ["True 3"]


def test_a_handler_whose_lock_one_holds_over_a_park_is_waited_for() -> None:
    assert prints(
        BEFORE
        + """
    order = []

    class Slow(logging.Handler):
        def emit(self, record):
            order.append(("begin", record.msg))
            time.sleep(0.02)
            order.append(("end", record.msg))

    logger = logging.getLogger("before")
    logger.propagate = False
    handler.emit = Slow.emit.__get__(handler)
    logger.addHandler(handler)
    threads = [threading.Thread(target=logger.error, args=(n,)) for n in range(3)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    print(order == [(what, n) for n in range(3) for what in ("begin", "end")])
    """
    ) == ["True"]


def test_an_rlock_from_before_excludes_dhagas_from_each_other() -> None:
    assert prints(
        BEFORE
        + """
    inside = most = 0

    def enter(lock):
        global inside, most
        with lock, lock:
            inside += 1
            most = max(most, inside)
            time.sleep(0.005)
            inside -= 1

    for lock_of in (rlock, box.own, inner(), condition._lock):
        threads = [threading.Thread(target=enter, args=(lock_of,)) for _ in range(3)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
    print(most)
    """
    ) == ["1"]


def test_conditions_queues_events_and_executors_from_before_let_others_run() -> None:
    assert prints(
        """
    import concurrent.futures
    executor = concurrent.futures.ThreadPoolExecutor(2)
    """
        + BEFORE
        + """
    got = []

    def waits():
        with condition:
            got.append(condition.wait(5))

    def gets():
        got.append(fifo.get(timeout=5))
        got.append(fifo.get(timeout=5))
        got.append(simple.get())
        got.append(simple.get(timeout=5))

    threads = [threading.Thread(target=it) for it in (waits, gets, event.wait, barrier.wait, semaphore.acquire)]
    for thread in threads: thread.start()
    time.sleep(0.01)
    with condition:
        condition.notify()
    fifo.put("put"), simple.put("put"), event.set(), barrier.wait(5)
    for thread in threads: thread.join(5)
    print(sorted(map(str, got)), [thread for thread in threads if thread.is_alive()])
    print(executor.submit(time.sleep, 0.01).result(), executor.submit(threading.get_ident).result() < 1000)
    """
    ) == ["['True', 'kept', 'kept', 'put', 'put']" + " []", "None True"]


def test_a_forked_child_finds_the_adopted_locks_free() -> None:
    assert prints(
        BEFORE
        + """
    import os

    done = threading.Event()

    def holds(lock):
        with lock:
            done.wait()

    threading.Thread(target=holds, args=(concurrent.futures.thread._global_shutdown_lock,)).start()
    time.sleep(0.01)
    if os.fork() == 0:
        print(concurrent.futures.ThreadPoolExecutor(1).submit(lambda: "in the child").result(timeout=60), flush=True)
        os._exit(0)
    print(os.wait()[1])
    done.set()
    """
    ) == ["in the child", "0"]


def test_nothing_is_asked_of_a_proxy() -> None:
    """It would make, or import, what it stands for."""
    assert prints("""
    import sys, threading, types

    class Proxy(types.ModuleType):
        def __getattribute__(self, name):
            print("asked for", name)
            raise RuntimeError

    held = []
    for kind in (Proxy, type("Plain", (), {"__getattribute__": Proxy.__getattribute__})):
        proxy = kind.__new__(kind)
        object.__setattr__(proxy, "lock", threading.Lock())
        held.append(proxy)
    sys.modules["proxy"] = held[0]
    object.__setattr__(held[0], "__file__", "/somewhere/proxy.py")
    import dhaga.monkey
    dhaga.monkey.patch()
    print([type(object.__getattribute__(proxy, "lock")) is threading.Lock for proxy in held])
    dhaga.monkey.unpatch()
    """) == ["[True, True]"]


def test_the_walk_over_all_objects_takes_none_that_asyncio_has_freed() -> None:
    """The state of `_asyncio` names iterators that it has freed; a second reference to one damages its list of them."""
    assert (
        prints(
            """
        import asyncio, threading
        import dhaga.monkey

        async def one():
            future = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_soon(future.set_result, 1)
            return await future

        async def many():
            return sum(await asyncio.gather(*(one() for _ in range(100))))

        locks = [threading.Lock() for _ in range(200)]  # so many that all objects are asked
        for _ in range(3):
            print(asyncio.run(many()))
            dhaga.monkey.patch()
            dhaga.monkey.unpatch()
        print(asyncio.run(many()))
        """
        )
        == ["100"] * 4
    )
