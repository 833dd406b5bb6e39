"""Ctrl-C and other signals: delivered to the main code, wherever that waits."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable

import pytest

import dhaga
from dhaga._kernel.process.signals import BLOCKED_SECONDS, BLOCKED_STRIKES, hold_off
from dhaga.testing import virtual_clock
from tests.kit.interrupts import FINALLY
from tests.kit.scripts import Program, prints


def interrupted(code: str, *, asleep: bool = False, **environment: str) -> tuple[int, list[str], str]:
    """Run a program, and send it SIGINT when it says that it is ready and, with ``asleep``, also sleeps."""
    program = Program(FINALLY + textwrap.dedent(code), **environment)
    outcome = program.interrupt_at("ready", asleep=asleep).outcome()
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
    """It does so wherever it struck. The program was told to end, so it does not wait for its dhagas."""
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


def strike_until_it_ends(program: Program) -> None:
    for _ in range(10):
        try:
            program.process.wait(5)
            return
        except subprocess.TimeoutExpired:
            program.process.send_signal(signal.SIGINT)


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
    strike_until_it_ends(program)  # two signals that a busy machine delivers together count as one
    outcome = program.outcome()
    assert outcome.status == -signal.SIGINT and "KeyboardInterrupt" in outcome.err


@pytest.mark.parametrize("lock", ["Condition()", "RLock()"])
def test_a_handler_may_acquire_an_rlock_that_was_just_handed_to_the_main_code(lock: str) -> None:
    assert prints(f"""
        import os, signal
        import dhaga
        from dhaga.signal import signal as set_handler
        from dhaga.threading import Condition, RLock

        def handler(*_):
            with lock:
                print("handler")

        def notify():
            with lock:
                if isinstance(lock, Condition):
                    lock.notify()
                else:
                    dhaga.sleep(0)
            os.kill(os.getpid(), signal.SIGUSR1)

        lock = {lock}
        set_handler(signal.SIGUSR1, handler)
        notifier = dhaga.spawn(notify)
        if isinstance(lock, Condition):
            with lock:
                lock.wait()
        else:
            dhaga.sleep(0)
            with lock:
                pass
        print("main code")
    """) == ["handler", "main code"]


def test_ctrl_c_ends_main_code_that_joins_a_scheduler_with_a_thread_of_its_own() -> None:
    status, lines, err = interrupted("""
        with dhaga.Scheduler() as s:
            d = s.spawn(with_finally)
            while not d.parked:
                time.sleep(0.001)
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
    """The host is run by main code without dhagas, and by main code with dhagas."""
    for first in ("pass", "dhaga.spawn(with_finally); dhaga.sleep(0)"):
        status, lines, err = interrupted(f"""
            import asyncio

            async def main():
                dhaga.spawn(with_finally)
                await dhaga.spawn(lambda: (busy(0.5), dhaga.sleep(1000)))  # the signal may also come late

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
    """Such a signal comes when the last line of Python before the sleep is done, but the sleep has not begun."""
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
        from dhaga._kernel.wait import current, thread_waiter
        from dhaga.threading import Lock

        thread_waiter.SIGNAL_SECONDS = 0.05

        def strike():
            while not main.parked:
                pass
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)

        lock = Lock()
        lock.acquire()
        main = current.this_waiter()
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


def test_a_call_that_main_code_makes_again_and_again_is_not_taken_for_one_that_blocks() -> None:
    frame = eval("sys._getframe()", {"__name__": "dhaga.module", "sys": sys})

    def strike(pause: Callable[[], object]) -> list[bool]:
        held = []
        for _ in range(2 * BLOCKED_STRIKES):
            held.append(hold_off(signal.SIGUSR1, frame))  # has no handler, so nothing is sent again
            time.sleep(BLOCKED_SECONDS / BLOCKED_STRIKES)
            pause()
        return held

    with virtual_clock():
        assert all(strike(lambda: dhaga.sleep(0)))
        assert not all(strike(lambda: None))


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
    """It strikes while all dhagas sleep, and the one that it wakes runs at once."""
    assert interrupted("""
        def handler(number, frame):
            print("woken:", d.wake("by the handler"))

        signal.signal(signal.SIGINT, handler)

        def waits():
            began = time.monotonic()
            print(dhaga.park("signal"), time.monotonic() - began < 30)

        d = dhaga.spawn(waits)
        dhaga.spawn(dhaga.sleep, 1000, daemon=True)
        dhaga.spawn(ready)
        d.join()
        print(signal.getsignal(signal.SIGINT) is handler)
    """) == (0, ["woken: True", "by the handler True", "True"], "")


@pytest.mark.parametrize("loop", ["asyncio.run", "uvloop.run"])
def test_a_signal_handler_may_wake_a_dhaga_of_a_guest(loop: str) -> None:
    pytest.importorskip(loop.split(".")[0])
    # CPython itself loses a signal that comes between its last look and the sleep of a host's loop.
    assert interrupted(
        f"""
        import {loop.split(".")[0]}

        def waits():
            print(dhaga.park("signal"))

        async def main():
            d = dhaga.spawn(waits)
            signal.signal(signal.SIGINT, lambda *_: d.wake("by the handler"))
            dhaga.spawn(ready)
            await d

        {loop}(main())
    """,
        asleep=True,
    ) == (0, ["by the handler"], "")
