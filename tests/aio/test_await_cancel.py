"""await_(): cancels and timeouts, ends of hosts, Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Callable
from typing import Any

import pytest

import dhaga
from dhaga.aio import enter
from dhaga.futures import Executor
from dhaga.testing import cancel_at_every_park, virtual_clock
from tests.kit.asyncio_places import (
    in_a_guest_of_asyncio,
    in_a_guest_of_uvloop,
    returns,
)
from tests.kit.parking import victim
from tests.kit.scripts import Program, prints, run


def test_a_cancel_reaches_the_coroutine_whose_finally_has_run_before_it_is_raised() -> None:
    trace: list[str] = []

    async def coroutine() -> None:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            trace.append("cancelled")
            raise
        finally:
            await asyncio.sleep(1)
            trace.append("put away")

    def works() -> None:
        try:
            dhaga.await_(coroutine())
        except dhaga.Cancelled as error:
            trace.append(f"dhaga: {error.reason}")
            raise

    with virtual_clock() as clock:
        d = dhaga.spawn(works)
        dhaga.sleep(1)
        d.cancel("enough")
        d.join()
        assert clock() == 2
    assert trace == ["cancelled", "put away", "dhaga: enough"]


def test_a_second_cancel_strikes_the_finally_and_still_waits_for_the_end() -> None:
    trace: list[str] = []

    async def coroutine() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            try:
                await asyncio.sleep(1000)
            finally:
                await asyncio.sleep(1)
                trace.append("put away")

    def works() -> None:
        for _ in range(2):
            try:
                dhaga.await_(coroutine())
            except dhaga.Cancelled as error:
                trace.append(f"dhaga: {error.reason}")

    with virtual_clock() as clock:
        d = dhaga.spawn(works)
        for number in (1, 2):
            dhaga.sleep(1)
            d.cancel(number)
        d.join()
        assert clock() == 3
    assert trace == ["put away", "dhaga: 1", "dhaga: 2"]


def test_a_coroutine_that_swallows_its_cancel_has_its_value_returned_and_the_cancel_comes_at_the_next_park() -> None:
    async def coroutine() -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(1000)
        return "value"

    def works() -> tuple[str, str]:
        value = dhaga.await_(coroutine())
        try:
            dhaga.sleep(0)
        except dhaga.Cancelled as error:
            return value, error.reason
        return value, "lost"

    with virtual_clock():
        d = dhaga.spawn(works)
        dhaga.sleep(1)
        d.cancel("later")
        assert d.result() == ("value", "later")


def test_an_error_in_the_finally_of_a_cancelled_coroutine_is_raised_and_the_cancel_comes_at_the_next_park() -> None:
    async def coroutine() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            raise OSError("while putting away")

    def works() -> str:
        with pytest.raises(OSError, match="while putting away"):
            dhaga.await_(coroutine())
        with pytest.raises(dhaga.Cancelled):
            dhaga.sleep(1)
        return "both"

    with virtual_clock():
        d = dhaga.spawn(works)
        dhaga.sleep(1)
        d.cancel()
        assert d.result() == "both"


def test_an_exit_that_a_coroutine_raises_is_raised_once_in_its_waiter() -> None:
    """The loop passes the exit on to the main code, too; the waiter gets it, as if it had run the code itself."""
    assert prints("""
        import asyncio
        import dhaga

        async def exits(kind, rounds):
            for _ in range(rounds):
                await asyncio.sleep(0)
            raise kind(rounds)

        async def in_task(kind, rounds):
            await asyncio.create_task(exits(kind, rounds))

        def works(*args):
            for coroutine in exits, in_task:
                try:
                    dhaga.await_(coroutine(*args))
                except BaseException as error:
                    print(repr(error), end=" ")
                dhaga.sleep(0.001)

        for kind in KeyboardInterrupt, SystemExit:
            for rounds in 0, 1, 2:
                works(kind, rounds)
            print()
        for rounds in 0, 1, 2:
            try:
                dhaga.spawn(lambda: dhaga.await_(exits(KeyboardInterrupt, rounds))).join()
                dhaga.sleep(0.001)
            except KeyboardInterrupt as error:
                print(repr(error), end=" ")
            dhaga.sleep(0.001)
    """) == [
        *[
            " ".join(f"{kind}({rounds}) {kind}({rounds})" for rounds in range(3)) + " "
            for kind in ("KeyboardInterrupt", "SystemExit")
        ],
        "KeyboardInterrupt(0) KeyboardInterrupt(1) KeyboardInterrupt(2) ",
    ]


def test_a_timeout_cancels_the_coroutine_and_waits_for_its_end() -> None:
    trace: list[str] = []

    async def coroutine(swallows: bool) -> str:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            await asyncio.sleep(1)
            trace.append("put away")
            if not swallows:
                raise
        return "value"

    with virtual_clock() as clock:
        with pytest.raises(TimeoutError):
            dhaga.await_(coroutine(False), timeout=1)
        assert clock() == 2
        with pytest.raises(TimeoutError, match="not done within"), dhaga.Timeout(1):
            dhaga.await_(coroutine(False))
        assert clock() == 4
        assert dhaga.await_(coroutine(True), timeout=1) == "value"
        dhaga.sleep(0)
        with dhaga.Timeout(1) as block:
            assert dhaga.await_(coroutine(True)) == "value"
        assert block.expired
        with pytest.raises(TimeoutError):
            dhaga.await_(asyncio.sleep(1), timeout=0)
        assert dhaga.await_(returns(1, 0), timeout=0) == 1
    assert trace == ["put away"] * 4


@pytest.mark.parametrize("swallows", [False, True])
def test_a_call_of_a_pool_is_cancelled_and_its_end_awaited_as_that_of_a_coroutine(swallows: bool) -> None:
    trace = []

    def call() -> str:
        try:
            dhaga.sleep(1000)
        except dhaga.Cancelled:
            with dhaga.shield():
                dhaga.sleep(1)
            trace.append("put away")
            if not swallows:
                raise
        return "value"

    with virtual_clock() as clock, Executor() as executor:
        if swallows:
            assert dhaga.await_(executor.submit(call), timeout=2) == "value"
        else:
            with pytest.raises(TimeoutError):
                dhaga.await_(executor.submit(call), timeout=2)
        assert (trace, clock()) == (["put away"], 3)


def test_a_cancelled_await_of_a_future_cancels_that_and_a_shield_keeps_it() -> None:
    with virtual_clock():
        loop = dhaga.current().scheduler.loop
        bare, shielded = loop.create_task(asyncio.sleep(5)), loop.create_task(returns("kept", 5))
        for future in (bare, asyncio.shield(shielded)):
            with pytest.raises(TimeoutError):
                dhaga.await_(future, timeout=0)
        assert bare.cancelled()
        assert dhaga.await_(shielded) == "kept"


def test_a_task_that_others_cancel_cancels_its_dhaga() -> None:
    tasks: list[Any] = []

    async def coroutine() -> None:
        tasks.append(asyncio.current_task())
        await asyncio.sleep(1000)

    with virtual_clock():
        d = dhaga.spawn(dhaga.await_, coroutine())
        dhaga.sleep(1)
        tasks[0].cancel("by others")
        with pytest.raises(dhaga.Cancelled, match="by others"):
            d.result()


def test_a_future_that_others_cancel_raises_asyncios_error() -> None:
    """It is no cancel of the dhaga: what it waits for has been given up."""
    with virtual_clock():
        loop = dhaga.current().scheduler.loop
        future = loop.create_future()
        loop.call_later(1, future.cancel)
        with pytest.raises(asyncio.CancelledError):
            dhaga.await_(future)
        with pytest.raises(asyncio.CancelledError):
            dhaga.await_(returns_the_result_of(future))


async def returns_the_result_of(future: Any) -> Any:
    return await future


@pytest.mark.parametrize("place", [in_a_guest_of_asyncio, in_a_guest_of_uvloop])
def test_a_host_that_ends_cancels_dhagas_that_await_and_nothing_is_logged(place: Any) -> None:
    trace: list[str] = []

    async def coroutine() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            await asyncio.sleep(0)
            trace.append("coroutine")

    def left(fn: Callable[[], Any]) -> None:
        try:
            fn()
        finally:
            dhaga.sleep(0)
            trace.append("dhaga")

    def in_a_block() -> None:
        with enter(lambda: asyncio.timeout(1000)):
            dhaga.sleep(1000)

    def fn() -> None:
        dhaga.spawn(left, lambda: dhaga.await_(coroutine()))
        dhaga.spawn(left, in_a_block)
        dhaga.sleep(0.01)

    place(fn)
    assert sorted(trace) == ["coroutine", "dhaga", "dhaga"]


def test_a_cancel_before_the_first_step_leaves_nothing_behind(recwarn: Any) -> None:
    trace: list[str] = []

    async def coroutine() -> None:
        trace.append("begun")

    with virtual_clock():
        d = dhaga.spawn(dhaga.await_, coroutine())
        dhaga.spawn(d.cancel)  # runs between the await and the first step, where that is made in its turn
        d.join()
        ended = dhaga.spawn(lambda: [dhaga.current().cancel(), dhaga.await_(coroutine())])
        with pytest.raises(dhaga.Cancelled):
            ended.result()
    del d, ended
    gc.collect()
    assert len(trace) <= 1 and not recwarn.list


def test_a_cancel_at_any_park_ends_the_coroutine_first(factory: Any) -> None:
    def scenario() -> Any:
        factory()
        trace: list[str] = []

        async def coroutine() -> None:
            trace.append("begins")
            try:
                await asyncio.sleep(1)
                await asyncio.sleep(1)
            finally:
                await asyncio.sleep(1)
                trace.append("ends")

        def works() -> None:
            try:
                dhaga.await_(coroutine())
                dhaga.await_(coroutine())
            finally:
                trace.append("dhaga")

        def check() -> None:
            assert trace in ([*["begins", "ends"] * n, "dhaga"] for n in range(3))

        return victim(works), check

    assert cancel_at_every_park(scenario) >= 2


def test_deadlock_is_seen_through_an_await() -> None:
    outcome = run("""
        import dhaga

        async def never():
            try:
                await dhaga.spawn(dhaga.park, "nothing", name="d", daemon=True)
            finally:
                print("put away")

        try:
            dhaga.await_(never())
        except dhaga.Deadlock as error:
            lines = str(error).splitlines()
            print(lines[1][:45])
            print(lines[3])
    """)
    told = ["  main code: waits for await on <Task pending", "  d: waits for nothing"]
    assert (outcome.lines, outcome.err) == (["put away", *told], "")


def test_ctrl_c_in_an_awaiting_main_code_ends_the_coroutine_first() -> None:
    program = Program("""
        import asyncio
        import dhaga

        async def coroutine():
            asyncio.get_running_loop().call_soon(print, "waits")  # once the coroutine waits
            try:
                await asyncio.sleep(1000)
            finally:
                await asyncio.sleep(0.01)
                print("put away")

        try:
            dhaga.await_(coroutine())
        except KeyboardInterrupt:
            print("interrupted")
    """)
    outcome = program.interrupt_at("waits").outcome()
    assert (outcome.status, outcome.lines, outcome.err) == (0, ["put away", "interrupted"], "")


def test_system_exit_in_a_coroutine_ends_the_program() -> None:
    for steps in (0, 1):
        outcome = run(f"""
            import asyncio, sys
            import dhaga

            async def coroutine():
                for _ in range({steps}):
                    await asyncio.sleep(0)
                sys.exit(3)

            try:
                dhaga.await_(coroutine())
            finally:
                print("finally")
        """)
        assert (outcome.status, outcome.lines, outcome.err) == (3, ["finally"], "")
