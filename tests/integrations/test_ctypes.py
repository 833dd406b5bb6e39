"""Idents of threads that are passed to C by ctypes, in patched programs."""

from __future__ import annotations

import sys

import pytest

from tests.kit.scripts import prints

START = """
import dhaga.monkey
dhaga.monkey.patch()
import ctypes, errno, threading, time

class TimeLimit(Exception):
    pass

set_async_exc = ctypes.pythonapi.PyThreadState_SetAsyncExc

def interrupt(ident, error=TimeLimit):
    return set_async_exc(ctypes.c_ulong(ident), ctypes.py_object(error))

def work(seconds=10):
    try:
        time.sleep(seconds)
        time.sleep(seconds)
    except TimeLimit as limit:
        print("interrupted", repr(limit))
    else:
        print("ran to its end")

"""


def test_an_asynchronous_exception_ends_a_threads_park() -> None:
    assert prints(
        START
        + """if True:
        thread = threading.Thread(target=work)
        thread.start()
        print(interrupt(thread.ident))
        thread.join()
        print(interrupt(thread.ident), interrupt(2**63))
        threading.excepthook = lambda args: print("unhandled", args.exc_type.__name__)
        thread = threading.Thread(target=time.sleep, args=(10,))
        thread.start()
        interrupt(thread.ident)
        thread.join()
    """
    ) == ["1", "interrupted TimeLimit()", "0 0", "unhandled TimeLimit"]


def test_an_asynchronous_exception_reaches_the_caller_itself_and_the_main_code() -> None:
    assert prints(
        START
        + """if True:
        def strike_itself():
            try:
                interrupt(threading.get_ident())
                for _ in range(1000):
                    pass
            except TimeLimit:
                print("itself")

        strike_itself()
        thread = threading.Thread(target=strike_itself)
        thread.start()
        thread.join()

        def strike(ident, seconds):
            time.sleep(seconds)
            print(interrupt(ident))
            print("goes on")

        threading.Thread(target=strike, args=(threading.main_thread().ident, 0.01)).start()
        work()
        native = dhaga.monkey.original("threading", "Thread")
        victim = threading.Thread(target=work)
        victim.start()
        striker = native(target=interrupt, args=(victim.ident,))
        striker.start()
        victim.join()
        striker.join()
    """
    ) == ["itself", "itself", "1", "goes on", "interrupted TimeLimit()", "interrupted TimeLimit()"]


def test_an_asynchronous_exception_may_be_taken_back() -> None:
    """Of a thread that gets the lock that it waits for, before it runs again."""
    assert prints(
        START
        + """if True:
        lock = threading.Lock()
        lock.acquire()

        def waits():
            with lock:
                work(0)

        for take_back in (False, True):
            thread = threading.Thread(target=waits)
            thread.start()
            lock.release()
            interrupt(thread.ident)
            if take_back:
                print(set_async_exc(ctypes.c_ulong(thread.ident), None))
            thread.join()
            lock.acquire()
    """
    ) == ["interrupted TimeLimit()", "1", "ran to its end"]


def test_a_function_that_was_there_before_the_patch_is_replaced_with_its_types() -> None:
    assert prints(
        """
        import ctypes
        f = ctypes.pythonapi.PyThreadState_SetAsyncExc
        f.argtypes, f.restype = (ctypes.c_ulong, ctypes.py_object), ctypes.c_long
        import dhaga.monkey, threading
        dhaga.monkey.patch()
        f = ctypes.pythonapi.PyThreadState_SetAsyncExc
        print(f.argtypes == (ctypes.c_ulong, ctypes.py_object), f.restype is ctypes.c_long, f.__name__)
        thread = threading.Thread(target=threading.Event().wait)
        thread.start()
        print(f(thread.ident, SystemExit), f(2**64 - 1, SystemExit))
        thread.join()
        dhaga.monkey.unpatch()
        print(type(ctypes.PyDLL(None).PyThreadState_SetAsyncExc).__mro__[1] is ctypes._CFuncPtr)
    """
    ) == ["True True PyThreadState_SetAsyncExc", "1 0", "True"]


@pytest.mark.skipif(sys.platform != "linux", reason="the thread library of Linux")
def test_functions_of_the_thread_library_find_the_os_thread_of_a_dhaga() -> None:
    assert prints(
        START
        + """if True:
        library = ctypes.CDLL(None)
        set_name, get_name, kill = library.pthread_setname_np, library.pthread_getname_np, library["pthread_kill"]
        set_name.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
        main = threading.get_ident()

        def name_of(ident):
            buffer = ctypes.create_string_buffer(16)
            return get_name(ctypes.c_void_p(ident), buffer, 16), buffer.value

        def go():
            before = name_of(main)
            print(set_name(threading.get_ident(), b"worker"), name_of(threading.get_ident()) == name_of(main) == before)
            print(kill(threading.get_ident(), 0), kill(ctypes.c_ulong(threading.get_ident()), 0))

        thread = threading.Thread(target=go)
        thread.start()
        thread.join()
        print(kill(thread.ident, 0) == set_name(thread.ident, b"worker") == errno.ESRCH)
        print(set_name(main, b"renamed"), name_of(main))
    """
    ) == ["0 True", "0 0", "True", "0 (0, b'renamed')"]
