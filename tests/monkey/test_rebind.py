"""Names that modules have bound before the patch follow it, and are restored."""

from __future__ import annotations

from tests.kit.scripts import prints


def test_what_modules_have_bound_before_follows() -> None:
    assert prints("""
    import functools, multiprocessing.dummy, reprlib, subprocess, sys, tempfile, types, _thread
    from threading import Lock, Thread, current_thread
    from time import sleep as nap
    import dhaga.monkey, dhaga.threading, dhaga.time

    other = sys.modules["other"] = types.ModuleType("other")
    other.__file__ = "/somewhere/other.py"
    other.Held = Thread
    dhaga.monkey.patch()
    original = dhaga.monkey.original("_thread", "get_ident")
    print(Thread is other.Held is dhaga.threading.Thread, Lock is dhaga.threading.Lock, nap is dhaga.time.sleep)
    print(functools.RLock is dhaga._sync.lock.RLock, reprlib.get_ident is not original, tempfile._allocate_lock is Lock)
    print(issubclass(multiprocessing.dummy.DummyProcess, Thread), subprocess._PopenSelector.__module__)
    dhaga.monkey.unpatch()
    print(Thread.__module__, other.Held.__module__, reprlib.get_ident is original)
    """) == [
        "True True True",
        "True True True",
        "True dhaga.selectors",
        "threading threading True",
    ]


def test_the_originals_go_on_as_before() -> None:
    """A native thread, which a dhaga of a patched program starts and waits for."""
    assert prints("""
    import dhaga.monkey
    dhaga.monkey.patch()
    import dhaga, _thread, threading, time
    Thread, Event = (dhaga.monkey.original("threading", name) for name in ("Thread", "Event"))
    print(Thread.__module__, Event.__module__, dhaga.monkey.original("time", "sleep") is not time.sleep)

    def native(who):
        dhaga.monkey.original("time", "sleep")(0.01)
        who.append(dhaga.monkey.original("_thread", "get_ident")())
        who.append(threading.current_thread().name)

    def start():
        who = []
        thread = Thread(target=native, args=(who,), name="native")
        thread.start()
        dhaga.offload(thread.join)
        return who[0] != main, who[1], type(thread._started) is Event

    main = dhaga.monkey.original("_thread", "get_ident")()
    print(dhaga.spawn(start).result())
    current = dhaga._kernel.originals.current_thread
    print(type(current()).__name__, dhaga.spawn(current).result().name)
    dhaga.monkey.unpatch()
    print(dhaga.monkey.original("threading", "Thread") is threading.Thread is Thread)
    """) == ["threading threading True", "(True, 'native', True)", "_MainThread MainThread", "True"]


def test_standard_modules_that_are_imported_meanwhile_are_restored_too() -> None:
    assert prints("""
    import dhaga.monkey, sys, threading
    Thread = threading.Thread
    assert "multiprocessing.dummy" not in sys.modules
    dhaga.monkey.patch()
    import multiprocessing.dummy as dummy, concurrent.futures.process as process
    print(dummy.Lock is dhaga._sync.lock.Lock, dummy.DummyProcess.__base__.__module__)
    dhaga.monkey.unpatch()
    print(dummy.Lock is threading.Lock, dummy.Event is threading.Event, dummy.DummyProcess.__base__ is threading.Thread)
    print(process._ExecutorManagerThread.__base__ is threading.Thread)
    pool = dummy.Pool(2)
    print(pool.map(abs, [-1, -2]))
    pool.close(), pool.join()
    """) == ["True dhaga.threading", "True True True", "True", "[1, 2]"]


def test_our_modules_may_stand_in_sys_modules_by_a_second_name() -> None:
    assert (
        prints("""
    import sys, dhaga.monkey, dhaga.socket, dhaga.threading
    sys.modules["myproject.net"], sys.modules["myproject.threads"] = dhaga.socket, dhaga.threading
    ours = {**vars(dhaga.socket)}
    dhaga.monkey.patch()
    print([name for name, value in vars(dhaga.socket).items() if ours[name] is not value])
    import socket
    for sock in socket.socketpair():
        sock.close()
    dhaga.monkey.unpatch()
    print([name for name, value in vars(dhaga.socket).items() if ours[name] is not value])
    """)
        == ["[]"] * 2
    )
