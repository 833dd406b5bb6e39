"""The implicit life, from its first spawn to the interpreter's exit, which goes as with threads; Ctrl-C, SystemExit."""

from __future__ import annotations

import signal
import sys
import textwrap
import time

import pytest

from tests.scripts import Program, prints, run

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
    """Dhagas and their ``finally``, then the executors, then OS threads, then exit handlers."""
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
    """Also where the executors' module is imported last: its exit hook would then come first."""
    assert prints("""
        import dhaga, dhaga.socket, asyncio

        def late():
            dhaga.sleep(0.05)
            print(dhaga.socket.getaddrinfo("localhost", 80, proto=6) != [])
            from concurrent.futures import ThreadPoolExecutor
            with ThreadPoolExecutor(1) as executor:
                print(dhaga.offload(executor.submit(lambda: "executor").result))
            future = asyncio.get_running_loop().run_in_executor(None, lambda: "default executor")
            me = dhaga.current()
            print(dhaga.park("future", start=lambda: future.add_done_callback(lambda f: me.wake(f.result()))))

        dhaga.spawn(late)
    """) == ["True", "executor", "default executor"]


def test_one_that_will_not_end_is_named_and_left() -> None:
    outcome = run("""
        import dhaga
        from dhaga.kernel import exit

        exit.EXIT_SECONDS = 0.2

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
    assert (outcome.status, outcome.lines) == (0, ["finally"])
    assert "at exit: every dhaga waits" in outcome.err and "lost: waits for nothing" in outcome.err


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
    assert (
        "waited-for ended by an error that nobody handled" in outcome.err and "ValueError: of the dhaga" in outcome.err
    )


def test_a_plain_thread_ends_its_dhagas_as_the_main_thread_does() -> None:
    """They run in it alone: its join comes back when they have ended. Its fds are closed."""
    assert prints("""
        import os, threading
        import dhaga

        def waited_for():
            dhaga.sleep(0.02)
            print("waited for")

        def daemon():
            try:
                dhaga.sleep(1000)
            finally:
                print("finally")

        def main_code():
            dhaga.spawn(waited_for)
            dhaga.spawn(daemon, daemon=True)
            dhaga.sleep(0.01)
            print("the thread's own code ends")

        before = len(os.listdir("/dev/fd"))
        for _ in range(2):
            thread = threading.Thread(target=main_code)
            thread.start()
            thread.join()
        print(len(os.listdir("/dev/fd")) - before, threading.active_count())
    """) == [*["the thread's own code ends", "waited for", "finally"] * 2, "0 1"]


def test_a_daemon_thread_with_dhagas_is_cut_off_in_silence() -> None:
    assert prints("""
        import threading
        import dhaga

        def main_code():
            dhaga.spawn(dhaga.sleep, 1000)
            dhaga.sleep(1000)

        threading.Thread(target=main_code, daemon=True).start()
        dhaga.sleep(0.05)
        print("end")
    """) == ["end"]


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


# ---- Ctrl-C

FINALLY = """
import signal, sys, time
import dhaga

def with_finally(what=lambda: dhaga.sleep(1000)):
    try:
        what()
    finally:
        dhaga.sleep(0.01)
        print("finally", flush=True)

def ready(*_):
    print("ready", flush=True)

def busy(seconds=20):
    ready()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass
"""


def interrupted(code: str, **environment: str) -> tuple[int, list[str], str]:
    """Run a program to which SIGINT is sent when it says that it is ready."""
    outcome = Program(FINALLY + textwrap.dedent(code), **environment).interrupt_at("ready").outcome()
    return outcome.status, outcome.lines, outcome.err


def test_ctrl_c_reaches_the_parked_main_code_and_every_finally_runs() -> None:
    status, lines, err = interrupted("""
        dhagas = [dhaga.spawn(with_finally), dhaga.spawn(with_finally, daemon=True), dhaga.spawn(dhaga.sleep, 1000)]
        dhaga.spawn(ready)
        dhagas[0].join()
    """)
    assert (status, lines) == (-signal.SIGINT, ["finally"] * 2)
    assert "in join" in err and err.endswith("KeyboardInterrupt\n")


def test_ctrl_c_reaches_the_computing_main_code() -> None:
    status, lines, err = interrupted("""
        d = dhaga.spawn(with_finally)
        dhaga.sleep(0)
        busy()
    """)
    assert (status, lines) == (-signal.SIGINT, ["finally"])
    assert "in busy" in err and err.endswith("KeyboardInterrupt\n")


@pytest.mark.parametrize("where", ["ready() or dhaga.sleep(1000)", "busy()", "ready() or d.join()"])
def test_ctrl_c_that_the_main_code_catches_leaves_the_status_to_it(where: str) -> None:
    """Wherever it struck; the program has been told to end, so nobody is waited for."""
    assert interrupted(f"""
        d = dhaga.spawn(with_finally)
        dhaga.sleep(0)
        try:
            {where}
        except KeyboardInterrupt:
            print("caught; it may go on:", dhaga.spawn(lambda: dhaga.sleep(0.01) or "yes").result())
    """) == (0, ["caught; it may go on: yes", "finally"], "")


def test_ctrl_c_waits_for_a_dhaga_that_computes_and_a_second_one_strikes_it() -> None:
    assert interrupted("""
        def computing():
            busy(0.3)
            print("the work is whole")
            dhaga.sleep(1000)

        d = dhaga.spawn(computing)
        try:
            d.join()
        except KeyboardInterrupt:
            print("main code")
    """) == (0, ["the work is whole", "main code"], "")
    program = Program(FINALLY + "dhaga.spawn(with_finally, busy).join()").interrupt_at("ready")
    time.sleep(0.4)
    program.process.send_signal(signal.SIGINT)
    outcome = program.outcome()
    assert (outcome.status, outcome.lines) == (-signal.SIGINT, ["finally"])


def test_ctrl_c_is_not_lost_on_main_code_that_must_get_a_lock_back() -> None:
    """After ``Condition.wait`` the lock is to be held again: the first Ctrl-C waits for it, further ones do not."""
    program = Program(
        FINALLY
        + """if True:
        from dhaga.threading import Condition, Lock
        condition = Condition(Lock())

        def holder():
            with condition:
                condition.notify()
                ready()
                dhaga.sleep(1000)

        d = dhaga.spawn(holder)
        with condition:
            condition.wait()
    """
    ).interrupt_at("ready")
    for _ in range(2):
        time.sleep(0.2)
        assert program.process.poll() is None
        program.process.send_signal(signal.SIGINT)
    outcome = program.outcome()
    assert outcome.status == -signal.SIGINT and "KeyboardInterrupt" in outcome.err


def test_ctrl_c_ends_main_code_that_joins_a_scheduler_with_a_thread_of_its_own() -> None:
    status, lines, err = interrupted("""
        with dhaga.Scheduler() as s:
            d = s.spawn(with_finally)
            ready()
            d.join()
    """)
    assert (status, lines) == (-signal.SIGINT, ["finally"]) and err.endswith("KeyboardInterrupt\n")


def test_ctrl_c_while_exit_waits_is_reported_and_ends_the_wait_as_with_threads() -> None:
    status, lines, err = interrupted("""
        dhaga.spawn(with_finally)
        dhaga.spawn(ready)
    """)
    assert (status, lines) == (0, ["finally"])
    assert err.rstrip().rstrip(":").endswith("KeyboardInterrupt")


def test_ctrl_c_in_a_dhaga_of_a_guest_ends_the_host() -> None:
    """On a loop of its own, and on one that main code with dhagas runs."""
    for first in ("pass", "dhaga.spawn(with_finally); dhaga.sleep(0)"):
        status, lines, err = interrupted(f"""
            import asyncio

            async def main():
                dhaga.spawn(with_finally)
                await dhaga.spawn(busy, 0.5)

            {first}
            asyncio.run(main())
        """)
        assert (status, lines) == (-signal.SIGINT, ["finally"] * (1 if first == "pass" else 2))
        assert err.endswith("KeyboardInterrupt\n")


UNNOTICED = """
    import os, signal, threading
    import dhaga

    def strike():
        \"""Have the signal taken by another thread than the main one, whose sleep it thus does not end by itself.\"""
        while not (main.parked and main.scheduler.selector.selecting):
            pass
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    def sleep():
        global main
        main = dhaga.current()
        thread = threading.Thread(target=strike)
        thread.start()
        try:
            dhaga.sleep(1000)
        except KeyboardInterrupt:
            print("interrupted", "in the parent" if os.getpid() == parent else "in the child", flush=True)
        thread.join()

    parent = os.getpid()
"""


def test_a_signal_that_interrupts_no_system_call_ends_the_sleep_all_the_same() -> None:
    """As one that comes when the last line of Python before the sleep is done, but the sleep has not begun."""
    assert prints(
        UNNOTICED
        + """
    sleep()
    for _ in range(2):
        pid = os.fork()
        if not pid:
            sleep()
            os._exit(0)
        os.waitpid(pid, 0)
    sleep()
    """,
        "-Wignore::DeprecationWarning",  # 3.12 sees an OS thread that was joined, but has not quite ended
    ) == ["interrupted in the parent", *["interrupted in the child"] * 2, "interrupted in the parent"]


def test_a_signal_that_interrupts_no_system_call_ends_the_wait_of_a_plain_thread_soon() -> None:
    assert (
        prints("""
        import signal, threading
        from dhaga.kernel import osthread, waiting
        from dhaga.threading import Lock

        osthread.SIGNAL_SECONDS = 0.05

        def strike():
            while not main.parked:
                pass
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)

        lock = Lock()
        lock.acquire()
        main = waiting.this_waiter()
        for timeout in (-1, 1000):
            thread = threading.Thread(target=strike)
            thread.start()
            try:
                lock.acquire(timeout=timeout)
            except KeyboardInterrupt:
                print("interrupted")
            thread.join()
    """)
        == ["interrupted"] * 2
    )


def test_the_wakeup_fd_is_given_back_and_that_of_somebody_else_stays() -> None:
    assert prints("""
        import signal, socket
        import dhaga
        from dhaga.testing import close_leftover_schedulers

        ear, button = socket.socketpair()
        button.setblocking(False)

        dhaga.current()
        close_leftover_schedulers()
        print(signal.set_wakeup_fd(button.fileno()))
        dhaga.current()
        print(signal.set_wakeup_fd(button.fileno()) == button.fileno())
        close_leftover_schedulers()
        print(signal.set_wakeup_fd(-1) == button.fileno())
    """) == ["-1", "True", "True"]


def test_a_sigint_handler_of_the_program_stays_and_may_wake_a_dhaga() -> None:
    """It strikes while everybody sleeps, and what it wakes runs at once."""
    assert interrupted("""
        def handler(number, frame):
            print("woken:", d.wake("by the handler"))

        signal.signal(signal.SIGINT, handler)

        def waits():
            began = time.monotonic()
            print(dhaga.park("signal"), time.monotonic() - began < 5)

        d = dhaga.spawn(waits)
        dhaga.spawn(dhaga.sleep, 1000, daemon=True)
        dhaga.spawn(ready)
        d.join()
        print(signal.getsignal(signal.SIGINT) is handler)
    """) == (0, ["woken: True", "by the handler True", "True"], "")


@pytest.mark.parametrize("loop", ["asyncio.run", "uvloop.run"])
def test_a_signal_handler_may_wake_a_dhaga_of_a_guest(loop: str) -> None:
    pytest.importorskip(loop.split(".")[0])
    assert interrupted(f"""
        import {loop.split(".")[0]}

        def waits():
            print(dhaga.park("signal"))

        async def main():
            d = dhaga.spawn(waits)
            signal.signal(signal.SIGINT, lambda *_: d.wake("by the handler"))
            dhaga.spawn(ready)
            await d

        {loop}(main())
    """) == (0, ["by the handler"], "")


# ---- SystemExit


@pytest.mark.parametrize(
    "end", ["d.join()", "dhaga.sleep(1000)", "pass", "time.sleep(0.1)", "dhaga.spawn(dhaga.sleep, 1000)"]
)
def test_system_exit_in_a_dhaga_ends_the_program_with_its_status(end: str) -> None:
    """Whether the main code is parked, has ended already, or never parks again."""
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
