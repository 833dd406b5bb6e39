"""The implicit life, from its first spawn to the interpreter's exit, which goes as with threads; Ctrl-C, SystemExit."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.kit.interrupts import FINALLY
from tests.kit.scripts import prints, run

# ---- the end of the main code


def test_main_code_spawns_parks_and_joins_without_a_run() -> None:
    assert prints("""
        import dhaga

        def double(n):
            dhaga.sleep(0.01)
            return 2 * n

        print([d.result() for d in [dhaga.spawn(double, n) for n in range(3)]])
        dhaga.sleep(0.01)
        print(dhaga.current())
    """) == ["[0, 2, 4]", "<Main code of MainThread RUNNING>"]


def test_dhagas_are_waited_for_at_exit_and_daemons_cancelled_after_them() -> None:
    assert prints("""
        import dhaga

        def daemon():
            try:
                dhaga.sleep(1000)
            except dhaga.Cancelled as cancelled:
                print("daemon:", cancelled.reason)
                raise
            finally:
                dhaga.sleep(0.01)
                print("daemon: finally, which parks")

        def generation(n):
            dhaga.sleep(0.01)
            print("generation", n)
            if n:
                dhaga.spawn(generation, n - 1)

        dhaga.spawn(daemon, daemon=True)
        dhaga.spawn(generation, 2)
        dhaga.spawn(print, "never joined, starts at exit")
        print("the main code ends")
    """) == [
        "the main code ends",
        "never joined, starts at exit",
        "generation 2",
        "generation 1",
        "generation 0",
        "daemon: the interpreter exits",
        "daemon: finally, which parks",
    ]


def test_exit_comes_in_the_order_of_threads() -> None:
    """Dhagas end first, then the executors, OS threads, exit handlers, and daemons of schedulers in other threads."""
    assert prints("""
        import atexit, concurrent.futures, logging, threading, time
        import dhaga

        class Handler(logging.Handler):
            def emit(self, record):
                print(record.getMessage())

            def close(self):
                print("logging ends")

        logging.getLogger().addHandler(Handler())
        executor = concurrent.futures.ThreadPoolExecutor(1)
        scheduler = dhaga.Scheduler("own").start()
        main_is_done = threading.Event()

        def os_thread():
            main_is_done.wait()
            time.sleep(0.05)
            print("an OS thread still uses a scheduler:", scheduler.spawn(lambda: "yes").result())

        def in_executor():
            time.sleep(0.02)
            return "by the executor"

        def waits():
            dhaga.sleep(0.02)
            print("dhaga:", dhaga.offload(executor.submit(in_executor).result))
            main_is_done.set()

        def own_daemon():
            try:
                dhaga.sleep(1000)
            finally:
                dhaga.sleep(0.01)
                print("the daemon on its own thread ends")

        dhaga.spawn(dhaga.offload, executor.submit(int).result).join()  # Python 3.12 lets nobody start a thread at exit
        scheduler.spawn(own_daemon, daemon=True)
        threading.Thread(target=os_thread).start()
        dhaga.spawn(waits)
        atexit.register(print, "exit handler")
    """) == [
        "dhaga: by the executor",
        "an OS thread still uses a scheduler: yes",
        "exit handler",
        "the daemon on its own thread ends",
        "logging ends",
    ]


@pytest.mark.skipif(sys.version_info[:2] == (3, 12), reason="Python 3.12 lets nobody start a thread at exit")
def test_names_are_looked_up_and_executors_work_while_dhagas_are_waited_for() -> None:
    """This holds also where the executors' module is imported last: its exit hook would then come first."""
    assert prints("""
        import dhaga, dhaga.socket, asyncio

        def late():
            dhaga.sleep(0.05)
            print(dhaga.socket.getaddrinfo("localhost", 80, proto=6) != [])
            from concurrent.futures import ThreadPoolExecutor
            with ThreadPoolExecutor(1) as executor:
                print(dhaga.offload(executor.submit(lambda: "executor").result))
            future = dhaga.current().scheduler.loop.run_in_executor(None, lambda: "default executor")
            me = dhaga.current()
            print(dhaga.park("future", start=lambda: future.add_done_callback(lambda f: me.wake(f.result()))))

        dhaga.spawn(late)
    """) == ["True", "executor", "default executor"]


def test_one_that_will_not_end_is_named_and_left() -> None:
    outcome = run("""
        import dhaga
        from dhaga._kernel.process import process_exit

        process_exit.EXIT_SECONDS = 0.2

        def stubborn():
            while True:
                try:
                    dhaga.sleep(1000)
                except BaseException as error:
                    print(type(error).__name__)

        dhaga.spawn(stubborn, daemon=True, name="stubborn")
        dhaga.sleep(0)
    """)
    assert (outcome.status, outcome.lines) == (0, ["Cancelled"])
    assert outcome.err == "at exit these dhagas did not end: <Dhaga stubborn WAITING sleep>\n"


def test_exit_gives_up_where_nothing_could_ever_wake_those_it_waits_for() -> None:
    outcome = run("""
        import dhaga

        def lost():
            try:
                dhaga.park("nothing")
            finally:
                print("finally")

        dhaga.spawn(lost, name="lost")
    """)
    assert (outcome.status, outcome.lines) == (1, ["finally"])
    assert "at exit: every dhaga waits" in outcome.err and "lost: waits for nothing" in outcome.err


@pytest.mark.parametrize("threads", ["import dhaga.threading as threading", "dhaga.monkey.patch(); import threading"])
@pytest.mark.parametrize("end", ["", "sys.exit(0)", "raise LookupError"])
def test_a_deadlock_at_exit_gives_status_1_after_the_exit_handlers(threads: str, end: str) -> None:
    outcome = run(f"""
        import dhaga, dhaga.monkey
        {threads}
        import atexit, sys

        atexit.register(print, "handler")
        threading.Thread(target=threading.Event().wait, name="lost").start()
        {end}
    """)
    assert (outcome.status, outcome.lines) == (1, ["handler"])
    assert outcome.err.count("at exit: every dhaga waits") == 1 and "lost: waits for event.wait" in outcome.err


def test_a_daemon_that_waits_for_ever_leaves_the_status_0() -> None:
    outcome = run("""
        import dhaga
        dhaga.spawn(dhaga.park, "nothing", daemon=True)
        dhaga.sleep(0)
    """)
    assert (outcome.status, outcome.err) == (0, "")


def test_a_system_exit_during_the_cancel_after_a_deadlock_gives_the_status() -> None:
    outcome = run("""
        import dhaga, sys

        def lost():
            try:
                dhaga.park("nothing")
            finally:
                sys.exit(4)

        dhaga.spawn(lost)
    """)
    assert outcome.status == 4


def test_a_deadlock_that_has_ended_the_program_is_not_told_again_at_exit() -> None:
    outcome = run("""
        import dhaga

        def lost():
            try:
                dhaga.park("nothing")
            finally:
                print("finally")

        dhaga.spawn(lost, name="lost").join()
    """)
    assert (outcome.status, outcome.lines) == (1, ["finally"])
    assert outcome.err.count("every dhaga waits") == 1 and "at exit" not in outcome.err


def test_a_deadlock_at_exit_is_told_where_the_program_has_caught_one_before() -> None:
    outcome = run("""
        import dhaga

        lost = dhaga.spawn(dhaga.park, "nothing", name="lost")
        try:
            lost.join()
        except dhaga.Deadlock:
            pass
    """)
    assert outcome.status == 1 and "at exit: every dhaga waits" in outcome.err


def test_an_error_of_a_signal_handler_at_exit_is_logged_with_its_type_and_line() -> None:
    outcome = run("""
        import os, dhaga, dhaga.signal as signal, dhaga.threading as threading

        class Stop(Exception):
            pass

        def handler(number, frame):
            raise Stop

        def late():
            threading.main_thread().join()
            os.kill(os.getpid(), signal.SIGTERM)
            dhaga.sleep(1000)

        signal.signal(signal.SIGTERM, handler)
        dhaga.spawn(late)
    """)
    assert outcome.err.startswith("at exit: \nTraceback")
    assert ", in handler\n" in outcome.err and outcome.err.endswith("Stop\n")


def test_an_error_in_a_dhaga_leaves_the_status_alone_one_in_the_main_code_does_not() -> None:
    outcome = run("""
        import dhaga

        def waited_for():
            dhaga.sleep(0.01)
            print("waited for")
            raise ValueError("of the dhaga")

        dhaga.spawn(waited_for, name="waited-for")
        raise RuntimeError("of the main code")
    """)
    assert (outcome.status, outcome.lines) == (1, ["waited for"])
    assert "RuntimeError: of the main code" in outcome.err
    assert "waited-for ended with an uncaught error" in outcome.err and "ValueError: of the dhaga" in outcome.err


def test_exit_handlers_may_still_spawn_and_park() -> None:
    assert prints("""
        import atexit
        import dhaga

        def late():
            print(dhaga.spawn(lambda: dhaga.sleep(0.01) or "joined").result())
            dhaga.spawn(lambda: print("not joined"))

        atexit.register(late)
        dhaga.sleep(0)
    """) == ["joined", "not joined"]


# ---- SystemExit


@pytest.mark.parametrize(
    "end", ["d.join()", "dhaga.sleep(1000)", "pass", "time.sleep(0.1)", "dhaga.spawn(dhaga.sleep, 1000)"]
)
def test_system_exit_in_a_dhaga_ends_the_program_with_its_status(end: str) -> None:
    """It does so whether the main code is parked, has ended already, or never parks again."""
    outcome = run(
        FINALLY
        + f"""if True:
        import atexit
        atexit.register(print, "exit handler")
        dhaga.spawn(with_finally)
        d = dhaga.spawn(sys.exit, 3)
        {end}
    """
    )
    assert (outcome.status, outcome.lines, outcome.err) == (3, ["finally", "exit handler"], "")


def test_system_exit_with_a_message_goes_to_the_main_code_as_it_is() -> None:
    outcome = run("""
        import sys, dhaga

        dhaga.spawn(sys.exit, "no more")
        dhaga.sleep(1000)
    """)
    assert (outcome.status, outcome.err) == (1, "no more\n")
    assert run("import sys, dhaga; dhaga.spawn(sys.exit, 'no more')") == outcome
    assert prints("""
        import sys, dhaga

        dhaga.spawn(sys.exit, "no more")
        try:
            dhaga.sleep(1000)
        except SystemExit as error:
            print("caught", error.code)
    """) == ["caught no more"]


def test_system_exit_of_the_main_code_waits_as_with_threads() -> None:
    outcome = run("""
        import sys, dhaga

        def waited_for():
            dhaga.sleep(0.02)
            print("waited for")

        dhaga.spawn(waited_for)
        sys.exit(4)
    """)
    assert (outcome.status, outcome.lines, outcome.err) == (4, ["waited for"], "")


@pytest.mark.parametrize("waits", [0, 1, 3])
def test_the_file_that_a_coroutine_returned_is_flushed(tmp_path: Path, waits: int) -> None:
    """The loop holds the Task of the callback that has woken main code last, and so the Task's result."""
    outcome = run(f"""
        import asyncio, dhaga

        async def make():
            for _ in range({waits}):
                await asyncio.sleep(0.001)
            return open({str(tmp_path / "file")!r}, "w")

        file = dhaga.await_(make())
        file.write("written")
    """)
    assert (outcome.status, outcome.err) == (0, "") and (tmp_path / "file").read_text() == "written"


@pytest.mark.parametrize("rounds", [1, 3])
def test_a_daemon_uses_the_lock_that_it_was_handed_before_it_is_left(rounds: int) -> None:
    """The last collection frees ``Last``, whose finalizer needs the lock."""
    assert prints(f"""
        import dhaga.monkey
        dhaga.monkey.patch()
        import gc, threading, time

        gc.disable()
        changed = threading.Condition()

        def wait():
            with changed:
                changed.wait()
            time.sleep(1000)

        class Last:
            def __init__(self):
                self.changed, self.me = changed, self

            def __del__(self, show=print):
                with self.changed:
                    show("finalized")

        Last()
        for _ in range({rounds}):
            threading.Thread(target=wait, daemon=True).start()
        time.sleep(0.01)
        with changed:
            changed.notify_all()
    """) == ["finalized"]


def test_a_finalizer_of_the_last_collection_hands_no_lock_to_a_daemon_that_never_runs_again() -> None:
    """Both finalizers run when no dhaga can run. The first one notifies the daemon."""
    assert prints("""
        import dhaga.monkey
        dhaga.monkey.patch()
        import gc, threading, time

        gc.disable()

        class Last:
            def __init__(self, changed):
                self.changed, self.me = changed, self

            def __del__(self, show=print):
                with self.changed:
                    self.changed.notify_all()
                show("finalized")

        def wait(changed):
            with changed:
                changed.wait()

        changed = threading.Condition()
        threading.Thread(target=wait, args=(changed,), daemon=True).start()
        time.sleep(0.01)
        Last(changed), Last(changed)
    """) == ["finalized", "finalized"]
