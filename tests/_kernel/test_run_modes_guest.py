"""Guests: dhagas on an asyncio, Tornado or uvloop loop that other code runs; they do not disturb the loop."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from tornado.ioloop import IOLoop

import dhaga
from dhaga import socket, testing
from dhaga._kernel import hooks
from dhaga._kernel.process.process_exit import retire_closed_guests
from dhaga._kernel.run.attachment import schedulers
from dhaga._kernel.run.run_modes import MAX_FAILURES, RETRY_SECONDS
from dhaga._kernel.wait.current import this_thread
from tests.kit.scripts import prints, run

Coroutine = Callable[[], Awaitable[Any]]


def run_by_tornado(main: Coroutine) -> Any:
    ioloop = IOLoop(make_current=False)
    try:
        return ioloop.run_sync(main)
    finally:
        ioloop.asyncio_loop.run_until_complete(ioloop.asyncio_loop.shutdown_asyncgens())
        ioloop.close()


def run_by_uvloop(main: Coroutine) -> Any:
    return pytest.importorskip("uvloop").run(main())


def run_by_asyncio(main: Coroutine) -> Any:
    return asyncio.run(main())


@pytest.fixture(params=[run_by_asyncio, run_by_tornado, run_by_uvloop])
def run_host(request: pytest.FixtureRequest) -> Iterator[Callable[[Coroutine], Any]]:
    """A host that runs a coroutine; afterwards nothing may be left of any guest."""
    request.param(lambda: asyncio.sleep(0))  # uvloop opens two fds the first time, for good
    before = testing.open_fds()
    yield request.param
    assert not schedulers
    assert testing.open_fds() == before


def test_a_coroutine_spawns_and_awaits(run_host: Any) -> None:
    def add(a: int, b: int) -> int:
        dhaga.sleep(0.001)
        return a + b

    async def main() -> list[int]:
        first, second = dhaga.spawn(add, 1, 2), dhaga.spawn(add, 3, 4)
        return [await first, await second, await first, *await asyncio.gather(first, second)]

    assert run_host(main) == [3, 7, 3, 3, 7]


def test_errors_of_all_laps_do_not_keep_the_host_busy(run_host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> float:
        def fails() -> None:
            if threading.get_ident() == ident:
                raise LookupError("in each lap")

        ident, loop = threading.get_ident(), asyncio.get_running_loop()
        sleeper = dhaga.spawn(dhaga.sleep, 0.001)
        loop.set_exception_handler(lambda _, told: errors.append(told["exception"]))
        before = loop.time()
        with monkeypatch.context() as patch:
            patch.setattr(hooks, "on_lap", fails)
            await asyncio.sleep(0.5)
        seconds = loop.time() - before
        await sleeper
        return seconds

    errors: list[BaseException] = []
    seconds = run_host(main)
    assert 1 <= len(errors) <= MAX_FAILURES + 5 + seconds / RETRY_SECONDS
    assert {type(error) for error in errors} == {LookupError}


def test_await_raises_what_the_dhaga_raised_and_then_nothing_is_logged(run_host: Any) -> None:
    def fails(error: BaseException) -> None:
        dhaga.sleep(0.001)
        raise error

    async def main() -> list[str]:
        seen = []
        for error in (ValueError("1"), OSError(2, "two"), dhaga.Cancelled("3")):
            try:
                await dhaga.spawn(fails, error)
            except BaseException as raised:
                seen.append(repr(raised))
                assert raised is error
        return seen

    assert run_host(main) == ["ValueError('1')", "FileNotFoundError(2, 'two')", "Cancelled('3')"]


def test_a_callback_spawns_and_dhagas_and_tasks_take_turns(run_host: Any) -> None:
    trace = []

    def runs_until_it_has_seen_tasks_run() -> None:
        while trace.count("task") < 3:
            trace.append("dhaga")
            dhaga.sleep(0.001 if len(trace) % 2 else 0)

    async def main() -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def callback() -> None:
            d = dhaga.spawn(runs_until_it_has_seen_tasks_run)
            dhaga.spawn(lambda: d.join() or done.set_result(None))

        asyncio.get_running_loop().call_soon(callback)
        while not done.done():
            trace.append("task")
            await asyncio.sleep(0.001 if len(trace) % 2 else 0)

    run_host(main)
    assert trace[0] == "task" and "dhaga" in trace


def test_however_long_dhagas_are_busy_a_turn_of_the_loop_takes_a_few_laps(run_host: Any) -> None:
    """Fds, timers and the run queue all ask for laps: these must not add up from turn to turn."""
    over = False

    def computes() -> None:
        while not over:
            sum(range(300))
            dhaga.sleep(0)

    def has_events(near: Any, far: Any) -> None:
        with near, far:
            while not over:
                near.sendall(b"x")
                far.recv(1)
                dhaga.sleep(0.0005)

    async def main() -> float:
        nonlocal over
        dhagas = [dhaga.spawn(computes) for _ in range(20)]
        dhagas += [dhaga.spawn(has_events, *socket.socketpair()) for _ in range(5)]
        for _ in range(100):
            await asyncio.sleep(0)
        before = dhagas[0].scheduler.laps
        for _ in range(20):
            await asyncio.sleep(0)
        laps = dhagas[0].scheduler.laps - before
        over = True
        for each in dhagas:
            await each
        return laps / 20

    assert run_host(main) < 5


def test_a_dhaga_sees_no_loop_and_no_task_and_the_tasks_see_theirs(run_host: Any) -> None:
    """Both sides check it at every step; a switch from within a task's step would leak loop and task."""
    checks = 0

    def in_dhaga(wake: list[Any]) -> None:
        nonlocal checks
        for _ in range(20):
            assert asyncio._get_running_loop() is None
            with pytest.raises(RuntimeError, match="no running event loop"):
                asyncio.current_task()
            checks += 1
            dhaga.sleep(0 if checks % 3 else 0.001)
            if wake:
                wake.pop().wake()

    async def in_task(wake: list[Any]) -> None:
        nonlocal checks
        me = asyncio.current_task()
        for n in range(20):
            await (asyncio.sleep(0) if n % 2 else dhaga.spawn(in_dhaga, wake))
            assert asyncio.current_task() is me
            assert asyncio.get_running_loop() is me.get_loop()
            checks += 1

    async def main() -> None:
        wake: list[Any] = []

        def parks() -> None:
            wake.append(dhaga.current())
            dhaga.park("turn")

        for _ in range(5):
            dhaga.spawn(parks)
        await asyncio.gather(*[in_task(wake) for _ in range(3)])
        while wake:
            wake.pop().wake()
            await asyncio.sleep(0)

    run_host(main)
    assert checks == 3 * 20 + 3 * 10 * 20


def test_dhagas_left_when_the_host_ends_are_cancelled_and_run_their_finally(run_host: Any) -> None:
    trace = []

    def left(name: str, daemon: bool) -> None:
        try:
            dhaga.sleep(1000)
        except dhaga.Cancelled as cancelled:
            trace.append(f"{name}: {cancelled.reason}")
            raise
        finally:
            dhaga.sleep(0.001)
            trace.append(f"{name}: finally")

    async def main() -> str:
        dhaga.spawn(left, "a", False)
        dhaga.spawn(left, "b", True, daemon=True)
        await asyncio.sleep(0.001)
        return "result"

    assert run_host(main) == "result"
    assert trace == ["a: the event loop shuts down", "b: the event loop shuts down", "a: finally", "b: finally"]


def test_two_hosts_one_after_the_other_in_one_thread(run_host: Any) -> None:
    async def main() -> Any:
        return await dhaga.spawn(lambda: dhaga.sleep(0.001) or dhaga.current().scheduler)

    first, second = run_host(main), run_host(main)
    assert first is not second and first.loop is not second.loop
    with pytest.raises(RuntimeError, match="stopped"):
        first.spawn(int)


def new_loops(policy: str) -> list[Any]:
    if policy == "uvloop":
        return [pytest.importorskip("uvloop").new_event_loop() for _ in range(2)]
    return [asyncio.new_event_loop() for _ in range(2)]


@pytest.mark.parametrize("policy", ["asyncio", "uvloop"])
def test_two_loops_run_in_turn_in_one_thread_keep_their_guests(policy: str) -> None:
    async def main() -> Any:
        return await dhaga.spawn(lambda: dhaga.sleep(0) or dhaga.current().scheduler)

    loops = new_loops(policy)
    guests = [loop.run_until_complete(main()) for loop in loops]
    fds = testing.open_fds()
    for _ in range(5):
        assert [loop.run_until_complete(main()) for loop in loops] == guests
    assert testing.open_fds() == fds and schedulers == set(guests)
    for loop in loops:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
    assert not schedulers and not this_thread.guests


def test_the_end_of_a_loop_cancels_what_is_spawned_after_the_cancel(run_host: Any) -> None:
    begun = []

    def supervised(number: int) -> None:
        begun.append(number)
        try:
            dhaga.park("work")
        finally:
            dhaga.spawn(supervised, number + 1)

    async def main() -> None:
        dhaga.spawn(supervised, 0)
        await asyncio.sleep(0.001)

    run_host(main)
    assert begun == [0, 1]


def test_the_hosts_exceptions_and_cancels_go_their_way(run_host: Any) -> None:
    trace = []

    def outlives() -> None:
        dhaga.park("turn")
        trace.append("the dhaga goes on")

    async def awaits(d: dhaga.Dhaga) -> None:
        try:
            await d
        except asyncio.CancelledError:
            trace.append("the await is cancelled")
            raise

    async def main() -> None:
        d = dhaga.spawn(outlives)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(awaits(d), 0.001)
        d.wake()
        await d
        raise LookupError("of the host")

    with pytest.raises(LookupError, match="of the host"):
        run_host(main)
    assert trace == ["the await is cancelled", "the dhaga goes on"]


def test_parking_in_a_coroutine_or_callback_is_refused(run_host: Any) -> None:
    async def main() -> None:
        d = dhaga.spawn(dhaga.sleep, 1000)
        sleeps = [lambda: dhaga.sleep(1), lambda: dhaga.sleep(0)]
        for call in [*sleeps, d.join, d.result, lambda: dhaga.park("x"), dhaga.current]:
            with pytest.raises(dhaga.ParkError, match=r"dhaga\.spawn"):
                call()
            refused: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

            def callback(call: Any = call, refused: Any = refused) -> None:
                try:
                    call()
                except BaseException as error:
                    refused.set_result(error)

            asyncio.get_running_loop().call_soon(callback)
            assert isinstance(await refused, dhaga.ParkError)
        d.cancel()

    run_host(main)


def test_a_dhaga_finds_the_hosts_loop_as_that_of_its_scheduler(run_host: Any) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")

    async def coroutine() -> str:
        await asyncio.sleep(0.001)
        return f"{variable.get()} {asyncio.current_task() is not None}"

    def in_dhaga() -> list[Any]:
        variable.set("of the dhaga")
        me = dhaga.current()
        loop = me.scheduler.loop
        seen = []
        task = loop.create_task(coroutine())
        task.add_done_callback(lambda done: me.wake(done.result()))
        seen.append(dhaga.park("task"))
        loop.call_later(0.001, me.wake, "timer")
        seen.append(dhaga.park("timer"))
        loop.run_in_executor(None, threading.get_ident).add_done_callback(lambda done: me.wake(done.result()))
        seen.append(dhaga.park("executor") != threading.get_ident())
        return seen

    async def main() -> Any:
        return await dhaga.spawn(in_dhaga), variable.get()

    assert run_host(main) == (["of the dhaga True", "timer", True], "unset")


def test_a_dhaga_is_awaited_from_another_loop_in_another_thread(run_host: Any) -> None:
    def works() -> str:
        dhaga.sleep(0.01)
        return threading.current_thread().name

    async def main() -> list[str]:
        d = dhaga.spawn(works)
        bad = dhaga.spawn(lambda: dhaga.park("turn") or 1 / 0)
        names: list[str] = []

        async def elsewhere() -> None:
            names.extend([await d, threading.current_thread().name])
            with pytest.raises(ZeroDivisionError):
                awaited = asyncio.ensure_future(bad)
                await asyncio.sleep(0)
                bad.wake()
                await awaited

        thread = threading.Thread(target=asyncio.run, args=(elsewhere(),), name="elsewhere")
        thread.start()
        while thread.is_alive():
            await asyncio.sleep(0.001)
        thread.join()
        return names

    assert run_host(main) == ["MainThread", "elsewhere"]


def test_other_threads_wake_and_join_dhagas_of_a_guest(run_host: Any) -> None:
    async def main() -> tuple[str, list[str]]:
        d = dhaga.spawn(dhaga.park, "thread")
        joined: list[str] = []
        joiner = threading.Thread(target=lambda: joined.append(d.result()))
        joiner.start()
        await asyncio.sleep(0.005)
        waker = threading.Thread(target=d.wake, args=("by a thread",))
        waker.start()
        result = await d
        waker.join()
        joiner.join()
        return result, joined

    assert run_host(main) == ("by a thread", ["by a thread"])


def test_a_host_run_by_the_main_code_of_an_implicit_scheduler() -> None:
    """The implicit scheduler's dhagas rest meanwhile; the host's dhagas are on the host's loop."""
    trace: list[Any] = []

    def ticks() -> None:
        while True:
            dhaga.sleep(0.001)
            trace.append("outer")

    async def main() -> Any:
        loop = await dhaga.spawn(lambda: dhaga.sleep(0.01) or dhaga.current().scheduler.loop)
        return loop is asyncio.get_running_loop()

    outer = dhaga.spawn(ticks)
    for _ in range(2):
        while not trace:
            dhaga.sleep(0.001)
        trace.clear()
        assert asyncio.run(main()) is True
        assert not trace and this_thread.main is not None
    outer.cancel()
    outer.join()


def test_an_implicit_scheduler_lends_its_own_loop_to_callbacks_and_tasks() -> None:
    """Any code may use ``scheduler.ioloop``; a spawn from there finds the scheduler, and no second one is made."""

    async def coroutine() -> tuple[Any, Any]:
        return await dhaga.spawn(dhaga.current), dhaga.spawn(int).scheduler

    me = dhaga.current()

    def callback() -> None:
        asyncio.ensure_future(coroutine()).add_done_callback(lambda done: me.wake(done.result()))

    me.scheduler.ioloop.add_callback(callback)
    d, scheduler = dhaga.park("task")
    assert d.scheduler is scheduler is me.scheduler
    assert asyncio._get_running_loop() is None
    dhaga.sleep(0)


def test_asyncio_run_works_within_a_dhaga(run_host: Any) -> None:
    async def inner() -> tuple[bool, bool]:
        me = asyncio.current_task()
        await asyncio.sleep(0.001)
        loop = asyncio.get_running_loop()
        return asyncio.current_task() is me, loop is dhaga.current().scheduler.loop

    def in_dhaga() -> tuple[tuple[bool, bool], object]:
        return asyncio.run(inner()), asyncio._get_running_loop()

    async def main() -> Any:
        loop = asyncio.get_running_loop()
        found = await dhaga.spawn(in_dhaga)
        return found, asyncio.get_running_loop() is loop

    assert run_host(main) == (((True, False), None), True)


def test_asyncio_debug_mode_has_nothing_to_say() -> None:
    """No callback is slow, no call_soon is from the wrong thread, and nothing is left unawaited or open."""
    assert prints(
        """
        import asyncio, logging, threading
        import dhaga

        logging.basicConfig(format="%(message)s", level=logging.WARNING)

        def works(n):
            for _ in range(100):
                dhaga.sleep(0)
            dhaga.sleep(0.001)
            return n

        async def main():
            asyncio.get_running_loop().slow_callback_duration = 10
            d = dhaga.spawn(dhaga.park, "thread")
            thread = threading.Thread(target=lambda: d.wake("woken"))
            await asyncio.sleep(0.01)
            thread.start()
            dhaga.spawn(dhaga.sleep, 1000)
            return [await d] + [await w for w in [dhaga.spawn(works, n) for n in range(50)]]

        print(len(asyncio.run(main())))
        dhaga.current().scheduler.loop.slow_callback_duration = 10
        print(dhaga.spawn(works, 1).result())
        s = dhaga.Scheduler()
        s.loop.slow_callback_duration = 10
        with s:
            print(s.spawn(works, 2).result())
        """,
        *("-X", "dev", "-W", "error"),
        PYTHONASYNCIODEBUG="1",
    ) == ["51", "1", "2"]


def test_a_host_that_leaves_its_loop_open_has_its_dhagas_ended_at_exit() -> None:
    assert prints("""
        import asyncio
        import dhaga
        from tornado.ioloop import IOLoop

        def left():
            try:
                dhaga.sleep(1000)
            finally:
                dhaga.sleep(0.01)
                print("finally")

        async def main():
            dhaga.spawn(left)
            await asyncio.sleep(0.01)
            print("main")

        IOLoop.current().run_sync(main)
        asyncio.new_event_loop().run_until_complete(main())
    """) == ["main", "main", "finally", "finally"]


def test_dhagas_left_on_a_loop_that_was_closed_are_named_and_never_run_again() -> None:
    """The program does not wait for them, and the interpreter's end does not run their ``finally``."""
    outcome = run("""
        import asyncio, gc
        import dhaga

        def left():
            try:
                dhaga.sleep(1000)
            finally:
                print("finally")

        async def main():
            dhaga.spawn(left, name="left")
            await asyncio.sleep(0.01)

        for _ in range(2):
            loop = asyncio.new_event_loop()
            loop.run_until_complete(main())
            loop.close()
            gc.collect()
        asyncio.run(main())
        print(dhaga.spawn(lambda: "another life").result())
    """)
    assert (outcome.status, outcome.lines) == (0, ["finally", "another life"])
    said = "these dhagas are left over, because their loop was closed: <Dhaga left WAITING sleep>\n"
    assert outcome.err == said * 2


@pytest.mark.logs
def test_who_wakes_a_dhaga_left_on_a_closed_loop_is_not_to_blame_but_nobody_can_spawn_there() -> None:
    loop = asyncio.new_event_loop()
    left: list[dhaga.Dhaga] = []

    async def main() -> None:
        left.append(dhaga.spawn(dhaga.park, "a wake"))
        await asyncio.sleep(0.01)

    loop.run_until_complete(main())
    loop.close()
    assert left[0].wake("too late")
    with pytest.raises(RuntimeError, match="takes no more dhagas"):
        left[0].scheduler.spawn(int)
    retire_closed_guests()


def test_loops_that_are_closed_without_a_shutdown_leak_no_fds() -> None:
    async def main() -> None:
        await dhaga.spawn(dhaga.sleep, 0.001)

    before = len(testing.open_fds())
    for _ in range(5):
        loop = asyncio.new_event_loop()
        loop.run_until_complete(main())
        loop.close()
    asyncio.run(main())
    assert len(testing.open_fds()) == before
