"""``dhaga.threading``: what the standard module has, with dhagas for threads."""

from __future__ import annotations

import asyncio
import contextvars
import importlib
import inspect
import sys
import threading as standard
from typing import Any

import pytest

import dhaga
from dhaga import threading
from dhaga.testing import settle, virtual_clock
from dhaga.threading import Thread, Timer
from tests.kit.scripts import prints, run

IMPORTED = {"threading": {"WeakSet"}, "queue": {"heappush", "heappop", "time"}}
"""Functions and classes."""


@pytest.mark.parametrize("name", ["threading", "queue", "socket", "select", "signal", "time"])
def test_every_name_of_the_standard_module_exists(name: str) -> None:
    """All it lists, and what else it has by a public name, but for what it has itself imported."""
    its, ours = importlib.import_module(name), importlib.import_module(f"dhaga.{name}")
    imported = {other for other in dir(its) if inspect.ismodule(getattr(its, other))} | IMPORTED.get(name, set())
    names = {other for other in dir(its) if not other.startswith("_")} - imported | {*getattr(its, "__all__", ())}
    assert {other for other in names if not hasattr(ours, other)} == set()
    assert names >= {"currentThread", "activeCount"} if name == "threading" else names
    assert all(hasattr(ours, other) for other in ours.__all__) if hasattr(ours, "__all__") else name == "select"


def test_a_name_that_is_missing_says_why() -> None:
    assert set(standard.__all__) <= set(threading.__all__)
    assert threading.__excepthook__ is standard.__excepthook__
    for name in ("_shutdown", "_register_atexit", "_limbo"):
        assert hasattr(standard, name)
        with pytest.raises(AttributeError, match=rf"dhaga\.threading has no '{name}', which concerns only OS threads"):
            getattr(threading, name)
    with pytest.raises(AttributeError, match=r"module 'dhaga\.threading' has no attribute 'nonsense'"):
        threading.nonsense


# ---- Thread


def test_a_thread_calls_its_target_with_its_arguments_once_its_turn_comes() -> None:
    trace: list[object] = []
    with virtual_clock() as clock:

        def target(*args: int, **kwargs: int) -> None:
            dhaga.sleep(2)
            trace.append((args, kwargs, clock(), threading.current_thread()))

        thread = Thread(target=target, args=[1, 2], kwargs={"three": 3})
        assert not thread.is_alive() and thread.ident is None
        thread.start()
        assert thread.is_alive() and not trace
        thread.join()
        assert not thread.is_alive()
        assert trace == [((1, 2), {"three": 3}, 2, thread)]


@pytest.mark.parametrize("priority", [dhaga.HIGH, dhaga.NORMAL, dhaga.LOW])
def test_start_returns_once_the_thread_has_begun_whatever_its_starters_priority(priority: Any) -> None:
    trace: list[str] = []

    def target() -> None:
        trace.append("begun")
        dhaga.sleep(1)
        trace.append("ended")

    def start() -> None:
        thread = Thread(target=target)
        thread.start()
        trace.append("started")
        thread.join()

    with virtual_clock():
        dhaga.spawn(start, priority=priority).result()
    assert trace == ["begun", "started", "ended"]


def test_a_cancel_strikes_the_starter_at_its_next_park_and_no_start_is_lost() -> None:
    trace: list[str] = []

    def cancels() -> None:
        victim.cancel()
        dhaga.sleep(1)

    def starter() -> None:
        Thread(target=cancels).start()
        trace.append("started")
        dhaga.sleep(1)

    with virtual_clock():
        victim = dhaga.spawn(starter)
        victim.cancel()  # it has not begun, and never will
        victim = dhaga.spawn(starter)
        victim.join()
        with pytest.raises(dhaga.Cancelled):
            victim.result()
        dhaga.sleep(2)
    assert trace == ["started"]


def test_start_parks_neither_within_no_park_nor_in_a_coroutine() -> None:
    trace: list[str] = []

    async def main() -> None:
        thread = Thread(target=trace.append, args=("ran",))
        thread.start()
        assert not trace
        await asyncio.to_thread(lambda: None)

    with virtual_clock():
        with dhaga.no_park():
            thread = Thread(target=trace.append, args=("ran",))
            thread.start()
            assert not trace
        thread.join()
    assert trace == ["ran"]
    trace.clear()
    asyncio.run(main())
    assert trace == ["ran"]


def test_a_keyboard_interrupt_of_its_own_code_is_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    class Odd(BaseException): ...

    told: list[type | None] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: told.append(args.exc_type))

    def target(error: type[BaseException]) -> None:
        raise error

    with virtual_clock():
        for error in (KeyboardInterrupt, Odd, dhaga.Cancelled, SystemExit):
            thread = Thread(target=target, args=(error,))
            thread.start()
            thread.join()
        dhaga.sleep(1)
    assert told == [KeyboardInterrupt, Odd, SystemExit]


def test_threads_run_side_by_side() -> None:
    with virtual_clock() as clock:
        threads = [Thread(target=dhaga.sleep, args=(n,)) for n in (1, 2, 3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert clock() == 3


def test_a_subclass_overrides_run() -> None:
    class Sum(Thread):
        def __init__(self, *numbers: int) -> None:
            super().__init__(name="sum")
            self.numbers = numbers
            self.total = 0

        def run(self) -> None:
            for number in self.numbers:
                dhaga.sleep(0)
                self.total += number

    with virtual_clock():
        thread = Sum(1, 2, 3)
        thread.start()
        thread.join()
        assert thread.total == 6


def test_a_thread_without_a_target_ends_at_once_and_its_run_may_be_called_by_hand() -> None:
    trace: list[int] = []
    with virtual_clock():
        thread = Thread()
        thread.start()
        thread.join()
        Thread(target=trace.append, args=(1,)).run()
    assert trace == [1]


def test_a_thread_starts_once_only() -> None:
    with virtual_clock():
        thread = Thread(target=dhaga.sleep, args=(1,))
        thread.start()
        for _ in range(2):
            with pytest.raises(RuntimeError, match="threads can only be started once"):
                thread.start()
            thread.join()


def test_a_subclass_that_forgets_the_init_is_told() -> None:
    class Forgets(Thread):
        def __init__(self) -> None:
            pass

    thread = Forgets()
    for use in (thread.start, thread.join, thread.is_alive, lambda: thread.name, lambda: thread.ident):
        with pytest.raises(RuntimeError, match=r"Thread.__init__\(\) was not called"):
            use()


def test_a_group_is_refused() -> None:
    with pytest.raises(ValueError, match="group argument must be None"):
        Thread(group="g")


def test_a_join_of_oneself_or_before_the_start_raises() -> None:
    told: list[str] = []

    def joins_itself() -> None:
        try:
            threading.current_thread().join()
        except RuntimeError as error:
            told.append(str(error))

    with virtual_clock():
        thread = Thread(target=joins_itself)
        with pytest.raises(RuntimeError, match="cannot join thread before it is started"):
            thread.join()
        thread.start()
        thread.join()
        thread.join()  # as often as one likes
        for other in (threading.main_thread(), dhaga.spawn(threading.current_thread).result()):
            with pytest.raises(RuntimeError, match="cannot join"):
                other.join()
    assert told == ["cannot join current thread"]


def test_a_join_with_a_timeout_ends_at_its_second_exactly() -> None:
    with virtual_clock() as clock:
        thread = Thread(target=dhaga.sleep, args=(10,))
        thread.start()
        for timeout, alive, now in ((2.5, True, 2.5), (0, True, 2.5), (-1, True, 2.5), (9, False, 10)):
            thread.join(timeout)
            assert (thread.is_alive(), clock()) == (alive, now)


def test_names_are_numbered_or_given_and_may_be_changed() -> None:
    def work() -> None: ...

    first, second = Thread(), Thread(target=work)
    assert first.name.startswith("Thread-") and first.name[7:].isdigit()
    assert second.name == f"Thread-{int(first.name[7:]) + 1} (work)"
    assert Thread(name=5).name == "5"
    with virtual_clock():
        thread = Thread(target=dhaga.park, args=("x",), name="before")
        thread.start()
        thread.name = "after"
        assert thread.name == "after"
        settle()
        assert "after" in repr(thread._dhaga)
        thread.cancel()
        thread.join()


def test_the_repr_tells_the_state() -> None:
    with virtual_clock():
        thread = Thread(name="t", target=dhaga.sleep, args=(1,), daemon=True)
        assert repr(thread) == "<Thread(t, initial daemon)>"
        thread.start()
        assert repr(thread) == f"<Thread(t, started daemon {thread.ident})>"
        thread.join()
        assert repr(thread) == f"<Thread(t, stopped daemon {thread.ident})>"


def test_daemon_is_inherited_and_settable_before_the_start_alone() -> None:
    made: list[Thread] = []
    with virtual_clock():
        thread = Thread(target=lambda: made.append(Thread()))
        assert thread.daemon is False
        thread.daemon = True
        thread.start()
        with pytest.raises(RuntimeError, match="cannot set daemon status of active thread"):
            thread.daemon = False
        thread.join()
        assert made[0].daemon and not Thread().daemon and Thread(daemon=True).daemon
        made[0].daemon = False
        assert not made[0].daemon


def test_daemon_of_running_code_without_a_thread_cannot_be_set() -> None:
    # Otherwise main code would hand the flag on to its new threads, and the exit would not wait for these threads.
    def set_own_flag() -> bool:
        with pytest.raises(RuntimeError, match="cannot set daemon status of active thread"):
            threading.current_thread().daemon = True
        return Thread().daemon

    with virtual_clock():
        assert (set_own_flag(), dhaga.spawn(set_own_flag).result()) == (False, False)


def test_a_cancel_ends_it_at_its_park_silently() -> None:
    with virtual_clock() as clock:
        thread = Thread(target=dhaga.sleep, args=(10,))
        assert thread.cancel() is False
        thread.start()
        settle()
        assert thread.cancel("enough") is True
        thread.join()
        assert not thread.is_alive() and thread.cancel() is False and clock() == 0


def test_it_runs_in_an_empty_context_or_in_the_one_given() -> None:
    var: contextvars.ContextVar[str] = contextvars.ContextVar("var", default="none")
    seen: list[str] = []

    def looks() -> None:
        seen.append(var.get())
        var.set("thread")

    with virtual_clock():
        context = contextvars.copy_context()
        context.run(var.set, "given")

        def starts() -> None:
            var.set("starter")
            for thread in (Thread(target=looks), Thread(target=looks, context=context)):
                thread.start()
                thread.join()
            assert var.get() == "starter"

        dhaga.spawn(starts).result()
    assert seen == ["starter" if getattr(sys.flags, "thread_inherit_context", False) else "none", "given"]
    assert context[var] == "thread" and var.get() == "none"


# ---- who runs


def test_current_thread_enumerate_and_active_count_tell_who_runs() -> None:
    with virtual_clock():
        main = threading.main_thread()
        assert threading.current_thread() is main and main.name == "MainThread"
        assert threading.enumerate() == [main] and main.is_alive() and not main.daemon
        seen: list[Thread] = []

        def looks() -> None:
            dhaga.sleep(1)
            seen.append(threading.current_thread())

        threads = [Thread(target=looks) for _ in range(3)]
        threads[0].start()
        threads[1].start()
        assert set(threading.enumerate()) == {main, *threads[:2]}
        assert threading.active_count() == 3
        for thread in threads[:2]:
            thread.join()
        assert threading.enumerate() == [main]
        assert set(seen) == set(threads[:2])


def test_a_thread_that_is_cancelled_before_its_first_turn_is_not_enumerated() -> None:
    with virtual_clock():
        thread = Thread(target=fails)
        with dhaga.no_park():  # where start() does not wait
            thread.start()
        thread.cancel()
        thread.join()
        assert not thread.is_alive()
        assert threading.enumerate() == [threading.main_thread()]


def test_get_ident_is_the_threads_own_and_no_other_has_it() -> None:
    idents: list[int] = []
    with virtual_clock():
        threads = [Thread(target=lambda: idents.append(threading.get_ident())) for _ in range(3)]
        for thread in threads:
            thread.start()
            thread.join()
        assert idents == [thread.ident for thread in threads]
        assert len({*idents, threading.get_ident()}) == 4
        assert threading.get_ident() == threading.main_thread().ident == standard.get_ident()
        assert threads[0].native_id == threading.get_native_id() == standard.get_native_id()
        assert Thread().native_id is None


def test_a_spawned_dhaga_and_a_plain_os_thread_have_a_stand_in_of_their_own() -> None:
    def who() -> tuple[Thread, bool, bool]:
        me = threading.current_thread()
        return me, me is threading.current_thread(), me.is_alive() and me.ident == threading.get_ident()

    with virtual_clock():
        d = dhaga.spawn(who, name="spawned", daemon=True)
        me, same, agrees = d.result()
        assert same and agrees and (me.name, me.ident, me.daemon) == ("spawned", d.ident, True)
        assert not me.is_alive() and me not in threading.enumerate()
    seen: list[Any] = []
    plain = standard.Thread(target=lambda: seen.append(who()), name="plain")
    plain.start()
    plain.join()
    me, same, agrees = seen[0]
    assert same and agrees and (me.name, me.ident) == ("plain", plain.ident) and not me.is_alive()


# ---- errors


def fails() -> None:
    raise LookupError("of the thread")


def test_an_error_goes_to_the_excepthook_which_may_be_assigned(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", told.append)
    with virtual_clock():
        thread = Thread(target=fails)
        thread.start()
        thread.join()
        assert not thread.is_alive() and threading.active_count() == 1
    [args] = told
    assert isinstance(args, threading.ExceptHookArgs)
    assert args.exc_type is LookupError and repr(args.thread) == repr(thread)
    assert str(args.exc_value) == "of the thread"
    assert args.exc_traceback is args.exc_value.__traceback__ is not None


def test_the_excepthook_is_the_standard_one_which_prints_the_name() -> None:
    outcome = run("""
        from dhaga.threading import Thread

        thread = Thread(target=lambda: 1 / 0, name="failing")
        thread.start()
        thread.join()
    """)
    assert outcome.status == 0
    assert outcome.err.startswith("Exception in thread failing:\n")
    assert outcome.err.endswith("\nZeroDivisionError: division by zero\n")


def test_a_failing_excepthook_is_told_by_sys(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[type[BaseException]] = []

    def hook(args: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(threading, "excepthook", hook)
    monkeypatch.setattr(sys, "excepthook", lambda kind, *_: told.append(kind))
    with virtual_clock():
        thread = Thread(target=fails)
        thread.start()
        thread.join()
    assert told == [ZeroDivisionError]


def exit_thread() -> None:
    with virtual_clock():
        thread = Thread(target=sys.exit, args=(3,))
        thread.start()
        thread.join()
        assert not thread.is_alive()


def test_system_exit_ends_a_thread_silently(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(standard, "excepthook", standard.__excepthook__)  # pytest has its own
    exit_thread()
    assert capsys.readouterr() == ("", "")


def test_an_assigned_excepthook_gets_the_exit_of_a_thread_as_in_cpython(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: told.append((args.exc_type, args.exc_value.code)))
    exit_thread()
    assert told == [(SystemExit, 3)]


# ---- Timer


def test_a_timer_calls_its_function_after_its_seconds_exactly() -> None:
    trace: list[object] = []
    with virtual_clock() as clock:

        def called(*args: int, **kwargs: int) -> None:
            trace.append((args, kwargs, clock()))

        timers = [Timer(2.5, called), Timer(1, called, [1], {"two": 2})]
        for timer in timers:
            timer.start()
        for timer in timers:
            timer.join()
            assert timer.finished.is_set()
    assert trace == [((1,), {"two": 2}, 1), ((), {}, 2.5)]


def test_a_cancelled_timer_ends_at_once_and_calls_nothing() -> None:
    trace: list[object] = []
    with virtual_clock() as clock:
        before, waiting, after = (Timer(5, trace.append, (n,)) for n in range(3))
        before.cancel()
        before.start()
        before.join()
        waiting.start()
        dhaga.sleep(2)
        waiting.cancel()
        waiting.join()
        assert clock() == 2
        after.start()
        after.join()
        after.cancel()
        assert clock() == 7
    assert trace == [2]


def test_a_child_forked_by_a_daemon_dhaga_does_the_work_of_its_threads() -> None:
    """As with the standard, where code that no Thread runs becomes a _MainThread in the child, which is no daemon."""
    assert prints("""
        import os, warnings
        import dhaga
        from dhaga import threading

        warnings.simplefilter("ignore", DeprecationWarning)

        def works():
            dhaga.sleep(0.01)
            print("the work is done", flush=True)

        def forks():
            if os.fork() == 0:
                main = threading.main_thread()
                print(main is threading.current_thread(), main, main.daemon, flush=True)
                threading.Thread(target=works).start()
            else:
                os.wait()
                done.set()

        done = threading.Event()
        forking = dhaga.spawn(forks, daemon=True)
        done.wait()
        print(forking.ident)
    """) == ["True <_MainThread(MainThread, started 1)> False", "the work is done", "1"]
