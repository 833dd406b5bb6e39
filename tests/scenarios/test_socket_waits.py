"""Sockets wait as the standard ones do, while others run: every operation, from every kind of caller."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import dhaga
from dhaga import socket
from dhaga._kernel.run.ioloop_poller import IOLoopPoller
from dhaga.testing import settle, virtual_clock
from tests.kit.socket_cases import EVENTFUL, LONG, TRYING, WAITS, Wait, connect_tcp, eventually

Case = Callable[[ExitStack], Wait]
CLOSED_AT_ONCE = [case for case in EVENTFUL if case.__name__ != "readline"]  # a file keeps its socket open


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def errno_of(operate: Callable[[], Any]) -> int | None:
    """Return the number of the error that a call raises."""
    try:
        operate()
    except OSError as error:
        return error.errno
    return 0


def parked(wait: Wait) -> dhaga.Dhaga:
    """Return a dhaga that has started the operation and has parked in it."""
    d = dhaga.spawn(wait.operate, name="waits")
    for _ in range(100):  # an operation that retries from time to time may be runnable
        settle()
        if d.state == "WAITING":
            break
    assert d.state == "WAITING"
    return d


# ---- every kind of caller


@pytest.mark.parametrize("case", WAITS)
def test_a_call_that_must_wait_parks_and_others_run(case: Case, stack: ExitStack) -> None:
    with virtual_clock(), stack:
        wait = case(stack)
        d = parked(wait)
        expected = {f"read fd {wait.sock.fileno()}", f"write fd {wait.sock.fileno()}", "sleep"}
        assert d.reason in expected
        trace: list[str] = []
        dhaga.spawn(trace.append, "another").join()
        assert trace == ["another"] and d.state == "WAITING"
        wait.release()
        assert d.result() == wait.outcome


@pytest.mark.parametrize("case", WAITS)
def test_a_call_that_need_not_wait_does_not_park(case: Case, stack: ExitStack) -> None:
    with virtual_clock(), stack:
        wait = case(stack)
        wait.release()
        d = dhaga.spawn(wait.operate)
        dhaga.sleep(0)
        dhaga.sleep(0)
        assert d.state == "DONE" and d.result() == wait.outcome


@pytest.mark.parametrize("case", WAITS)
def test_main_code_waits_like_a_dhaga(case: Case, stack: ExitStack) -> None:
    with virtual_clock(), stack:
        wait = case(stack)
        dhaga.spawn(lambda: (dhaga.sleep(0), wait.release()))
        assert wait.operate() == wait.outcome


@pytest.mark.parametrize("case", WAITS)
def test_a_plain_thread_waits_for_real(case: Case, stack: ExitStack) -> None:
    with stack:
        wait = case(stack)
        results: list[Any] = []
        thread = threading.Thread(target=lambda: results.append(wait.operate()))
        thread.start()
        thread.join(0.01)
        assert thread.is_alive() and not results
        wait.release()
        thread.join(30)
        assert results == [wait.outcome]


@pytest.mark.parametrize("case", WAITS)
def test_it_waits_in_a_scheduler_of_its_own_thread(case: Case, stack: ExitStack) -> None:
    with stack, dhaga.Scheduler() as scheduler:
        wait = case(stack)
        d = scheduler.spawn(wait.operate)
        eventually(lambda: d.state == "WAITING")
        wait.release()
        assert d.result() == wait.outcome


def run_on_asyncio(main: Any) -> None:
    asyncio.run(main)


def run_on_uvloop(main: Any) -> None:
    uvloop = pytest.importorskip("uvloop")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main)


@pytest.mark.parametrize("run", [run_on_asyncio, run_on_uvloop])
def test_all_waits_at_once_as_a_guest_of_a_loop(run: Any) -> None:
    async def main() -> None:
        with ExitStack() as stack:
            waits = [case(stack) for case in WAITS]
            dhagas = [dhaga.spawn(wait.operate) for wait in waits]
            while any(d.state != "WAITING" for d in dhagas):
                await asyncio.sleep(0.001)
            for wait in waits:
                wait.release()
            assert [await d for d in dhagas] == [wait.outcome for wait in waits]

    run(main())


@pytest.mark.parametrize("run", [run_on_asyncio, run_on_uvloop])
def test_sockets_closed_under_waiters_leave_a_foreign_loop_unharmed(run: Any) -> None:
    async def main() -> None:
        with ExitStack() as stack:
            waits = [case(stack) for case in CLOSED_AT_ONCE]
            dhagas = [dhaga.spawn(errno_of, wait.operate) for wait in waits]
            while any(d.state != "WAITING" for d in dhagas):
                await asyncio.sleep(0.001)
            for number, wait in enumerate(waits):
                if number % 2:
                    wait.sock.detach_to_close()  # type: ignore[attr-defined]
                else:
                    thread = threading.Thread(target=wait.sock.close)
                    thread.start()
                    thread.join()
            assert {await d for d in dhagas} == {errno.EBADF}

    socket.socket.detach_to_close = lambda sock: socket.close(sock.detach())  # type: ignore[attr-defined]
    try:
        run(main())
    finally:
        del socket.socket.detach_to_close  # type: ignore[attr-defined]


@pytest.mark.parametrize("case", WAITS)
def test_in_a_coroutine_there_is_no_waiting(case: Case, stack: ExitStack) -> None:
    async def main() -> None:
        wait = case(stack)
        with pytest.raises(dhaga.ParkError):
            wait.operate()
        wait.release()
        if not case.__name__.startswith("connect"):
            assert wait.operate() == wait.outcome

    with stack:
        asyncio.run(main())


# ---- timeouts


@pytest.mark.parametrize("case", (*WAITS, connect_tcp))
def test_it_gives_up_after_its_timeout(case: Case, stack: ExitStack) -> None:
    with virtual_clock() as clock, stack:
        wait = case(stack)
        wait.sock.settimeout(LONG)
        before = clock()
        if case.__name__ == "connect_ex":
            assert dhaga.spawn(wait.operate).result() == errno.EAGAIN
        else:
            with pytest.raises(TimeoutError):
                dhaga.spawn(wait.operate).result()
        assert clock() == pytest.approx(before + LONG)


@pytest.mark.parametrize("case", WAITS)
def test_a_timeout_that_does_not_come_leaves_nothing_behind(case: Case, stack: ExitStack) -> None:
    with virtual_clock(), stack:
        wait = case(stack)
        wait.sock.settimeout(LONG)
        d = parked(wait)
        wait.release()
        assert d.result() == wait.outcome


@pytest.mark.parametrize("case", WAITS)
def test_a_plain_thread_gives_up_after_the_timeout(case: Case, stack: ExitStack) -> None:
    with stack:
        wait = case(stack)
        wait.sock.settimeout(0.01)
        if case.__name__ == "connect_ex":
            assert wait.operate() == errno.EAGAIN
        else:
            with pytest.raises(TimeoutError):
                wait.operate()


@pytest.mark.parametrize("case", WAITS)
@pytest.mark.parametrize("caller", ["a dhaga", "a plain thread", "a coroutine"])
def test_with_timeout_0_nothing_waits_wherever_it_is_called(case: Case, caller: str, stack: ExitStack) -> None:
    def operates() -> None:
        wait = case(stack)
        wait.sock.setblocking(False)
        for _ in range(2):
            if case.__name__ == "connect_ex":
                assert wait.operate() == errno.EAGAIN
            elif case.__name__ == "readline":
                assert wait.operate() in (None, b"")  # what the standard file returns
                return
            else:
                with pytest.raises(ValueError if "sendfile" in case.__name__ else BlockingIOError):
                    wait.operate()
        if "sendfile" not in case.__name__ and case.__name__ != "sendall":
            wait.release()
            assert wait.operate() == wait.outcome

    async def main() -> None:
        operates()

    with stack:
        if caller == "a dhaga":
            with virtual_clock():
                dhaga.spawn(operates).result()
        elif caller == "a coroutine":
            asyncio.run(main())
        else:
            operates()


def test_the_timeout_bounds_a_whole_call_of_many_parks(stack: ExitStack) -> None:
    """A reader that always comes too late, and a sendall that always gets a little further."""
    with virtual_clock() as clock, stack:
        near, far = socket.socketpair()
        with near, far:
            near.settimeout(10)
            d = dhaga.spawn(near.recv, 1)
            for _ in range(3):
                dhaga.sleep(3)
                far.send(b"x")
                assert near.recv(1) == b"x"  # snatched away before the dhaga has its turn
            with pytest.raises(TimeoutError):
                d.result()
            assert clock() == 10
            d = dhaga.spawn(near.sendall, bytes(10_000_000))
            with pytest.raises(TimeoutError):
                while True:
                    try:
                        d.result(timeout=3)
                    except TimeoutError:
                        if d.state == "DONE":
                            raise
                        far.recv(1000)
            assert clock() == pytest.approx(20)


def test_a_timeout_changed_between_calls_counts_for_the_next_one(stack: ExitStack) -> None:
    with virtual_clock() as clock:
        near, far = socket.socketpair()
        with near, far:

            def reads() -> bytes:
                for timeout, end in ((5, 5), (0, 5), (1.5, 6.5), (0, 6.5), (2, 8.5)):
                    near.settimeout(timeout)
                    with pytest.raises(BlockingIOError if timeout == 0 else TimeoutError):
                        near.recv(10)
                    assert clock() == end
                near.settimeout(None)
                return near.recv(10)

            d = dhaga.spawn(reads)
            dhaga.sleep(1000)
            far.sendall(b"after all")
            assert d.result() == b"after all"


def test_timeouts_are_kept_as_the_standard_keeps_them() -> None:
    with socket.socket() as sock:
        assert (sock.gettimeout(), sock.getblocking(), sock.timeout) == (None, True, None)
        sock.settimeout(5)
        assert (sock.gettimeout(), sock.getblocking(), sock.timeout) == (5.0, True, 5.0)
        sock.setblocking(False)
        assert (sock.gettimeout(), sock.getblocking(), sock.timeout) == (0.0, False, 0.0)
        sock.setblocking(True)
        assert (sock.gettimeout(), sock.getblocking()) == (None, True)
        for wrong, error in ((-1, ValueError), ("1", TypeError), (float("nan"), ValueError), (1e300, OverflowError)):
            with pytest.raises(error):
                sock.settimeout(wrong)
        assert sock.gettimeout() is None
    socket.setdefaulttimeout(7)
    try:
        with socket.socket() as sock, socket.create_server(("127.0.0.1", 0)) as server:
            assert sock.gettimeout() == server.gettimeout() == 7
    finally:
        socket.setdefaulttimeout(None)


# ---- cancels


@pytest.mark.parametrize("case", WAITS)
def test_a_cancel_ends_the_wait_and_loses_nothing(case: Case, stack: ExitStack) -> None:
    endings: list[Any] = [lambda d: d.cancel("enough"), lambda d: d.time_out_park()]
    if case.__name__ == "readline" or case in TRYING:
        endings.pop()  # after a timeout a socket's file is not read on; and the end of a pause is not an error
    with virtual_clock(), stack:
        wait = case(stack)
        for end in endings:
            d = parked(wait)
            end(d)
            with pytest.raises((dhaga.Cancelled, TimeoutError)):
                d.result()
            for channel in wait.sock.watchers_.values():
                assert not channel.readers and not channel.writers
        d = parked(wait)
        wait.release()
        assert d.result() == wait.outcome


@pytest.mark.parametrize("case", WAITS)
def test_a_cancel_after_the_wake_waits_for_the_next_park(case: Case, stack: ExitStack) -> None:
    """The dhaga is runnable: it completes the call, and what it got is not lost."""
    with virtual_clock(), stack:
        wait = case(stack)
        results = []

        def operates() -> None:
            results.append(wait.operate())
            dhaga.sleep(1)

        d = dhaga.spawn(operates)
        settle()
        wait.release()
        while d.state == "WAITING":
            d.scheduler.poller.poll()
            if case in TRYING or isinstance(d.scheduler.poller, IOLoopPoller):
                dhaga.sleep(0.001)
        if d.state == "RUNNABLE":
            d.cancel()
            with pytest.raises(dhaga.Cancelled):
                d.result()
        else:
            d.result()
        assert results == [wait.outcome]


@pytest.mark.parametrize("case", WAITS)
def test_a_timeout_block_ends_the_wait(case: Case, stack: ExitStack) -> None:
    with virtual_clock() as clock, stack:
        wait = case(stack)
        before = clock()

        def operates() -> Any:
            with pytest.raises(TimeoutError), dhaga.Timeout(LONG):
                wait.operate()
            return clock() - before

        assert dhaga.spawn(operates).result() == pytest.approx(LONG)


# ---- closing


def close_here(wait: Wait) -> None:
    wait.sock.close()


def close_in_another_scheduler(wait: Wait) -> None:
    with dhaga.Scheduler() as other:
        other.spawn(wait.sock.close).result()


def close_in_a_plain_thread(wait: Wait) -> None:
    thread = threading.Thread(target=wait.sock.close)
    thread.start()
    thread.join()


def give_away(wait: Wait) -> None:
    socket.close(wait.sock.detach())


@pytest.mark.parametrize("case", CLOSED_AT_ONCE)
@pytest.mark.parametrize("close", [close_here, close_in_another_scheduler, close_in_a_plain_thread, give_away])
def test_closing_wakes_every_waiter_with_an_error(case: Case, close: Any, stack: ExitStack) -> None:
    with stack, dhaga.Scheduler("of another thread") as scheduler:
        wait = case(stack)
        errors: list[OSError] = []

        def operates() -> None:
            try:
                wait.operate()
            except OSError as error:
                errors.append(error)

        dhagas = [dhaga.spawn(operates), dhaga.spawn(operates), scheduler.spawn(operates)]
        thread = threading.Thread(target=operates)
        thread.start()
        while any(d.state != "WAITING" for d in dhagas) or not getattr(wait.sock.watchers_.get(None), "wakeup_fds", ()):
            dhaga.sleep(0.001)
        close(wait)
        for d in dhagas:
            d.join()
        thread.join(30)
        assert [error.errno for error in errors] == [errno.EBADF] * 4
        assert len({id(error) for error in errors}) == 4


@pytest.mark.parametrize("case", (*CLOSED_AT_ONCE, *TRYING))
def test_a_closed_socket_raises_as_the_standard_one(case: Case, stack: ExitStack) -> None:
    with stack:
        wait = case(stack)
        parked(wait).cancel()
        wait.sock.close()
        d = dhaga.spawn(wait.operate)
        if case.__name__ == "connect_ex":
            assert d.result() == errno.EBADF
        else:
            with pytest.raises(OSError) as caught:
                d.result()
            assert caught.value.errno == errno.EBADF
        assert wait.sock.fileno() == -1 and "closed" in repr(wait.sock)
