"""Threads of a patched program, as it sees them by public and by private names, and after forks."""

from __future__ import annotations

import sys
import threading as standard

from tests.kit.scripts import prints

START = """
import dhaga.monkey
dhaga.monkey.patch()
import _thread, os, sys, threading, time, warnings
warnings.filterwarnings("ignore", "This process .* is multi-threaded, use of fork")

"""


def test_the_private_names_that_we_rely_on_exist() -> None:
    """``new_name`` calls one, ThreadEndLock adds to one, the table replaces three; dhaga.thread has more of them."""
    assert {"_newname", "_active", "_MainThread", "_DummyThread"} <= vars(standard).keys()
    assert hasattr(standard, "_shutdown_locks") is (sys.version_info < (3, 13))
    import _thread

    assert (
        hasattr(_thread, "_ThreadHandle") is hasattr(_thread, "start_joinable_thread") is (sys.version_info >= (3, 13))
    )
    assert hasattr(_thread, "_count") and any(kind.__name__ == "UnraisableHookArgs" for kind in tuple.__subclasses__())


def test_threads_are_known_by_their_kinds_and_idents() -> None:
    assert prints(
        START
        + """if True:
        main = threading.main_thread()
        print(isinstance(main, threading._MainThread), main is threading.current_thread())
        print(main.ident == threading.get_ident() == _thread.get_ident(), threading._active == {main.ident: main})
        kinds = []
        def look():
            me = threading.current_thread()
            kinds.append((type(me).__name__, isinstance(me, threading._DummyThread), me in threading.enumerate()))
            kinds.append(threading._active[_thread.get_ident()] is me and me.is_alive())
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        _thread.start_new_thread(look, ())
        time.sleep(0.01)
        print(kinds)
        print(threading.enumerate() == [main], threading.RLock is threading._CRLock, _thread._count())
        lock = threading._PyRLock()
        with lock:
            done = []
            other = threading.Thread(target=lambda: done.append(lock.acquire(timeout=0.01)))
            other.start()
            other.join()
            print(done, lock._is_owned())
    """
    ) == [
        "True True",
        "True True",
        "[('Thread', False, True), True, ('_DummyThread', True, True), True]",
        "True True 0",
        "[False] True",
    ]


def test_a_forked_child_has_one_thread_whoever_forks() -> None:
    """``threading._after_fork``, which Python calls, finds the standard's own threads, and nothing of ours."""
    lines = prints(
        START
        + """if True:
        from dhaga._kernel import originals
        lock = threading.Lock()
        def sleeper():
            with lock:
                time.sleep(100)
        threading.Thread(target=sleeper, daemon=True).start()
        time.sleep(0.01)
        def fork(what):
            pid = os.fork()
            if not pid:
                me = threading.current_thread()
                print(what, threading.enumerate() == [me] == list(threading._active.values()), end=" ")
                its = originals.main_thread()
                print(me is threading.main_thread(), originals.enumerate_threads() == [its], end=" ")
                print(threading.get_ident() == me.ident, originals.get_ident() == its.ident, end=" ")
                thread = threading.Thread(target=time.sleep, args=(0.01,))
                thread.start()
                thread.join()
                lock._at_fork_reinit()
                print(lock.acquire(timeout=1), thread.is_alive(), len(threading.enumerate()), flush=True)
                if what != "returns":
                    os._exit(3) if what == "_exit" else sys.exit(4)
                return
            print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
        for what in ("main", "_exit"):
            fork(what)
        for what in ("_exit", "returns"):
            thread = threading.Thread(target=fork, args=(what,))
            thread.start()
            thread.join()
        forked = threading.Event()
        _thread.start_new_thread(lambda: (fork("_exit"), forked.set()), ())
        forked.wait(30)
        print(threading.current_thread() is threading.main_thread(), len(threading.enumerate()))
        os._exit(0)
    """
    )
    good = "True True True True True True False 1"
    assert lines == [
        *(f"main {good}", "4", f"_exit {good}", "3"),
        *(f"_exit {good}", "3", f"returns {good}", "0"),
        *(f"_exit {good}", "3", "True 2"),
    ]


def test_threads_import_one_module_at_a_time_and_others_run_meanwhile(tmp_path: object) -> None:
    assert prints(
        START
        + f"""if True:
        with open({str(tmp_path)!r} + "/slow_module.py", "w") as file:
            file.write("import __main__, time\\nwhile len(__main__.ticks) < 3: time.sleep(0.001)\\nVALUE = []")
        sys.path.insert(0, {str(tmp_path)!r})
        """
        + """
        found, ticks = [], []
        def imports():
            import slow_module
            found.append(slow_module.VALUE)
        def tick():
            while len(found) < 5:
                time.sleep(0.001)
                ticks.append(1)
        threads = [threading.Thread(target=call) for call in (*[imports] * 5, tick)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(len(found), len({id(value) for value in found}))
    """
    ) == ["5 1"]


def test_pools_of_multiprocessing_run_a_hundred_threads_at_once() -> None:
    assert prints(
        START
        + """if True:
        from multiprocessing.dummy import Pool, Process
        from multiprocessing.pool import ThreadPool
        most, now, all_of_them = 0, 0, threading.Barrier(100)
        def work(n):
            global most, now
            now += 1
            most = max(most, now)
            all_of_them.wait(60)
            now -= 1
            return n
        with Pool(100) as pool:
            print(pool.map(work, range(100), 1) == list(range(100)), most)
        with ThreadPool(4) as pool:
            print(pool.apply_async(pow, (2, 3)).get(60), sum(pool.imap_unordered(abs, range(10))))
        process = Process(target=time.sleep, args=(0.01,))
        process.start()
        process.join()
        print(process.exitcode, process.is_alive())
    """
    ) == ["True 100", "8 45", "0 False"]


def test_who_wraps_start_and_run_is_asked() -> None:
    assert prints(
        START
        + """if True:
        start = threading.Thread.start
        def wrapped(self, *args, **kwargs):
            run = self.run
            def also():
                print("wrapped")
                run()
            self.run = also
            return start(self, *args, **kwargs)
        threading.Thread.start = wrapped
        class Mine(threading.Thread):
            def run(self):
                print("mine", self._started.is_set(), threading.current_thread() is self)
                super().run()
        thread = Mine(target=print, args=("target",))
        thread.start()
        thread.join()
        threading.excepthook = lambda args: print(args.exc_type.__name__, args.thread.name)
        thread = threading.Thread(target=lambda: 1 / 0, name="fails")
        thread.start()
        thread.join()
        threading._register_atexit(print, "atexit")
        threading.Thread(target=lambda: print("ends", time.sleep(0.05))).start()
    """
    ) == ["wrapped", "mine True True", "target", "wrapped", "ZeroDivisionError fails", "wrapped", "atexit", "ends None"]
