"""``dhaga.signal``: handlers are called in the main code, wherever that stands, and nothing is lost by them."""

from __future__ import annotations

import signal as standard
from time import sleep as standard_sleep

import pytest

from tests.kit.scripts import Program, prints, run

START = """
import os, signal as standard, sys
import dhaga
from dhaga import queue, signal, threading, time

main, log = threading.get_ident(), []

class Boom(Exception):
    pass

def handler(number, frame):
    log.append(number == signal.SIGUSR1 and threading.get_ident() == main)
    log.append(threading.current_thread() is threading.main_thread())
    time.sleep(0.04)

def fails(number, frame):
    handler(number, frame)
    raise Boom

def kill(after=0.01):
    time.sleep(after)
    os.kill(os.getpid(), signal.SIGUSR1)

def soon(call=kill, *args, seconds=0):
    timer = threading.Timer(seconds, call, args)
    timer.start()

"""


def test_a_handler_runs_in_the_main_code_which_is_parked_and_may_park_itself() -> None:
    assert prints(
        START
        + """if True:
        signal.signal(signal.SIGUSR1, handler)
        event = threading.Event()
        soon(kill)
        soon(event.set, seconds=0.2)  # long after the handler
        print(event.wait(), log, event._waiters_)
        event.clear(), log.clear()
        soon(kill)
        soon(event.set, seconds=0.03)  # while the handler sleeps
        print(event.wait(), log)
        log.clear()
        soon(kill)
        print(event.clear(), event.wait(0.02), log)  # the timeout comes while the handler sleeps
    """
    ) == ["True [True, True] WaitQueue([])", "True [True, True]", "None False [True, True]"]


def test_what_comes_while_the_handler_parks_is_not_lost() -> None:
    assert prints(
        START
        + """if True:
        signal.signal(signal.SIGUSR1, handler)
        q, lock = queue.Queue(), threading.Lock()
        soon(kill)
        soon(q.put, 7, seconds=0.03)
        print(q.get(), log)
        lock.acquire(), log.clear()
        soon(kill)
        soon(lock.release, seconds=0.03)
        print(lock.acquire(), lock, log)
        signal.signal(signal.SIGUSR1, fails)
        soon(kill)
        soon(q.put, 8, seconds=0.03)
        print(q.get())  # handed over: so the error waits for the next park
        try:
            time.sleep(0.01)
        except Boom:
            print("boom")
    """
    ) == ["7 [True, True]", "True <Lock held by main code, 0 parked> [True, True]", "8", "boom"]


def test_handlers_that_are_sent_together_lose_no_wake_of_the_main_code() -> None:
    """The second finds the main code away, at the first; meanwhile the main code's own park is over."""
    assert prints(
        START
        + """
signal.signal(signal.SIGUSR1, handler)
signal.signal(signal.SIGUSR2, handler)

def kill_twice():
    os.kill(os.getpid(), signal.SIGUSR1)
    os.kill(os.getpid(), signal.SIGUSR2)

for _ in range(3):
    dhaga.spawn(kill_twice)
    time.sleep(0.01)
print(len(log))
"""
    ) == ["12"]


def test_what_a_handler_raises_ends_the_park_of_the_main_code_and_no_dhaga() -> None:
    assert prints(
        START
        + """if True:
        signal.signal(signal.SIGUSR1, fails)
        waits = dict(
            event=threading.Event().wait, get=queue.Queue().get, sleep=lambda: time.sleep(5), park=dhaga.park,
            join=threading.Thread(target=time.sleep, args=(5,), daemon=True),
        )
        waits["join"].start()
        waits["join"] = waits["join"].join
        for name, wait in waits.items():
            soon(kill)
            try:
                wait() if name != "park" else wait("x")
            except Boom as error:
                print(name, "boom")
        try:
            os.kill(os.getpid(), signal.SIGUSR1)  # the main code runs
        except Boom:
            print("at once")
        print(threading.active_count())
    """
    ) == ["event boom", "get boom", "sleep boom", "park boom", "join boom", "at once", "2"]


def test_handlers_interrupt_handlers_and_share_the_main_codes_rlocks() -> None:
    assert prints(
        START
        + """if True:
        def nested(number, frame):
            log.append("in")
            if len(log) < 3:
                soon(kill)
                time.sleep(0.04)
            log.append("out")
        signal.signal(signal.SIGUSR1, nested)
        soon(kill)
        time.sleep(0.15)
        print(*log)
        lock = threading.RLock()
        def again(number, frame):
            with lock:
                print("again", lock)
        signal.signal(signal.SIGUSR1, again)
        soon(kill)
        with lock:
            time.sleep(0.05)
    """
    ) == ["in in in out out out", "again <RLock held by main code 2 times, 0 parked>"]


def test_a_handler_may_end_the_program_and_join_its_threads_first() -> None:
    outcome = run(
        START
        + """if True:
        stop = threading.Event()
        worker = threading.Thread(target=stop.wait)
        worker.start()
        def ends(number, frame):
            stop.set()
            worker.join()
            print("joined")
            sys.exit(7)
        signal.signal(signal.SIGTERM, ends)
        soon(lambda: os.kill(os.getpid(), signal.SIGTERM), seconds=0.02)
        time.sleep(60)
    """
    )
    assert (outcome.status, outcome.out, outcome.err) == (7, "joined\n", "")


def test_the_program_sees_its_own_handlers() -> None:
    assert prints(
        START
        + """if True:
        print(signal.signal(signal.SIGUSR1, handler) is signal.SIG_DFL, signal.getsignal(signal.SIGUSR1) is handler)
        print(signal.signal(signal.SIGUSR1, signal.SIG_IGN) is handler, repr(signal.getsignal(signal.SIGUSR1)))
        dhaga.spawn(time.sleep, 0).join()
        print(standard.getsignal(signal.SIGINT) is standard.default_int_handler)  # Ctrl-C is heard by us
        print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
        print(signal.signal(signal.SIGINT, signal.default_int_handler) is signal.default_int_handler)
        print(standard.getsignal(signal.SIGINT) is standard.default_int_handler)
        try:
            signal.signal(signal.SIGUSR1, None)
        except TypeError:
            print("refused")
    """
    ) == ["True True", f"True {standard.SIG_IGN!r}", "False", "True", "True", "False", "refused"]


def test_an_interrupt_from_a_thread_comes_to_the_main_code_that_joins_it() -> None:
    assert prints(
        START
        + """if True:
        import _thread
        def interrupt(seconds):
            time.sleep(seconds)
            _thread.interrupt_main()
        thread = threading.Thread(target=interrupt, args=(0.01,))
        thread.start()
        try:
            thread.join()
        except KeyboardInterrupt:
            print("interrupted")
        time.sleep(0.01)
        print(threading.active_count())
        thread = threading.Thread(target=_thread.interrupt_main)
        try:
            thread.start()
        except KeyboardInterrupt:
            print("interrupted at the start")
        thread.join()
        time.sleep(0.01)
    """
    ) == ["interrupted", "1", "interrupted at the start"]


def test_a_ctrl_c_that_strikes_a_thread_which_computes_ends_the_program_and_not_just_the_thread() -> None:
    program = Program(
        START
        + """if True:
        def computes():
            print("busy")
            while True:
                pass
        threading.excepthook = lambda args: print("unexpected", args)
        dhaga.spawn(dhaga.sleep).join()
        try:
            threading.Thread(target=computes).start()
        except KeyboardInterrupt:
            print("interrupted")
    """
    ).interrupt_at("busy")
    standard_sleep(0.5)  # one that comes at once counts as the same
    program.process.send_signal(standard.SIGINT)
    outcome = program.outcome()
    assert (outcome.lines, outcome.err, outcome.status) == (["interrupted"], "", 0)


def test_a_thread_may_not_set_handlers_nor_the_wakeup_fd() -> None:
    assert (
        prints(
            START
            + """if True:
        def go():
            for call in (lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL), lambda: signal.set_wakeup_fd(-1)):
                try:
                    call()
                except ValueError as error:
                    print(error)
        thread = threading.Thread(target=go)
        thread.start()
        thread.join()
        dhaga.spawn(go).join()
    """
        )
        == [f"{name} only works in main thread of the main interpreter" for name in ("signal", "set_wakeup_fd")] * 2
    )


def test_the_schedulers_own_wakeup_fd_is_hidden_and_comes_back() -> None:
    assert prints(
        START
        + """if True:
        import socket
        dhaga.spawn(dhaga.sleep).join()
        ours = standard.set_wakeup_fd(-1)
        standard.set_wakeup_fd(ours, warn_on_full_buffer=False)
        ends = socket.socketpair()
        for end in ends:
            end.setblocking(False)
        print(ours != -1, signal.set_wakeup_fd(ends[0].fileno()), signal.set_wakeup_fd(-1) == ends[0].fileno())
        print(signal.set_wakeup_fd(-1), standard.set_wakeup_fd(-1) == ours)
        try:
            signal.set_wakeup_fd("1")
        except TypeError:
            print("refused")
    """
    ) == ["True -1 True", "-1 True", "refused"]


def test_a_signal_for_a_dhaga_is_sent_to_its_os_thread() -> None:
    assert prints(
        START
        + """if True:
        import threading as real
        signal.signal(signal.SIGUSR1, handler)
        def go():
            signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
            time.sleep(0.1)
        thread = threading.Thread(target=go)
        thread.start()
        signal.pthread_kill(thread.ident, 0)
        thread.join()
        print(log)
        with dhaga.Scheduler() as other:
            victim = other.spawn(dhaga.sleep, 10)
            signal.pthread_kill(victim.ident, signal.SIGUSR1)
            time.sleep(0.1)
            print(len(log))
        for ident in (thread.ident, victim.ident, 0):
            try:
                signal.pthread_kill(ident, signal.SIGUSR1)
            except ProcessLookupError as error:
                print(error)
        signal.pthread_kill(real.main_thread().ident, 0)
    """
    ) == ["[True, True]", "4", *["[Errno 3] No such process"] * 3]


def test_pause_and_the_waits_for_blocked_signals_let_others_run() -> None:
    assert prints(
        START
        + """if True:
        ticks = []
        def tick():
            while True:
                time.sleep(0.005)
                ticks.append(1)
        threading.Thread(target=tick, daemon=True).start()
        signal.signal(signal.SIGUSR1, handler)
        soon(kill)
        print(signal.pause(), log)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        for wait in (signal.sigwait, signal.sigwaitinfo, lambda these: signal.sigtimedwait(these, 5)):
            ticks.clear()
            soon(kill)
            found = wait([signal.SIGUSR1])
            print(getattr(found, "si_signo", found) == signal.SIGUSR1, len(ticks) > 1)
        print(signal.sigtimedwait([signal.SIGUSR1], 0.03), signal.sigtimedwait([signal.SIGUSR1], 0))
    """
    ) == ["None [True, True]", "True True", "True True", "True True", "None None"]


def test_main_code_without_a_scheduler_hears_signals_while_it_blocks() -> None:
    assert (
        prints(
            START
            + """if True:
        from threading import Thread
        signal.signal(signal.SIGUSR1, lambda number, frame: (inner.acquire(), log.append("heard"), inner.release()))
        inner, lock = threading.Lock(), threading.Lock()
        def others():
            standard_time.sleep(0.03)
            os.kill(os.getpid(), signal.SIGUSR1)
            standard_time.sleep(0.03)
            log.append("open")
            inner.release()  # the handler blocks till then
            while "heard" not in log:
                standard_time.sleep(0.001)
            log.append("end")
            lock.release()
        for wait in (lambda: time.sleep(0.15), lock.acquire):
            log.clear(), lock.acquire(False), inner.acquire()
            other = Thread(target=others)
            other.start()
            wait()
            other.join()
            print(log)
    """.replace("if True:", "if True:\n        import time as standard_time", 1)
        )
        == ["['open', 'heard', 'end']"] * 2
    )


def test_a_handler_may_fork_and_what_was_waited_for_stays_in_the_parent() -> None:
    assert prints(
        START
        + """if True:
        def forks(number, frame):
            global child
            child = os.fork()
        signal.signal(signal.SIGUSR1, forks)
        soon(kill)
        event = threading.Event()
        soon(event.set, seconds=0.1)
        try:
            event.wait()
        except RuntimeError as error:
            print(type(error).__name__, threading.enumerate() == [threading.main_thread()], flush=True)
            time.sleep(0.01)
            sys.exit(5)
        time.sleep(0.3)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """,
        "-Wignore",
    ) == ["LeftBehind True", "5"]


@pytest.mark.slow
def test_a_thousand_signals_at_odd_moments_lose_no_item() -> None:
    assert prints(
        START
        + """if True:
        came = []
        signal.signal(signal.SIGALRM, lambda number, frame: (came.append(1), time.sleep(0)))
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.0007)
        q, got = queue.Queue(1), []
        def feed():
            for n in range(20_000):
                q.put(n)
            q.put(None)
        threading.Thread(target=feed).start()
        got = list(iter(q.get, None))
        while len(came) < 1000:
            time.sleep(0.001)
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(got == list(range(20_000)))
    """
    ) == ["True"]


def test_pause_returns_once_the_handler_was_called() -> None:
    assert prints(
        START
        + """if True:
        came = []
        signal.signal(signal.SIGALRM, lambda number, frame: came.append(1))
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)  # again, should the first come before the pause
        signal.pause()
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(bool(came))
    """
    ) == ["True"]
