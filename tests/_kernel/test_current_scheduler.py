"""The current scheduler: the caller's, made if there is none yet."""

from __future__ import annotations

import asyncio
import errno
import threading
from unittest import mock

import dhaga
from dhaga import testing
from dhaga._kernel.process.current_scheduler import current_scheduler
from tests.kit.raised import error_of
from tests.kit.scripts import prints


def test_main_code_and_its_dhagas_share_one_that_is_made_once() -> None:
    first = current_scheduler()
    assert current_scheduler() is first
    assert dhaga.spawn(current_scheduler).result() is first


def test_each_thread_has_its_own_and_a_dhaga_has_that_which_it_was_spawned_on() -> None:
    found: list[dhaga.Scheduler] = []
    thread = threading.Thread(target=lambda: found.append(current_scheduler()))
    thread.start()
    thread.join()
    with dhaga.Scheduler("elsewhere") as elsewhere:
        assert elsewhere.spawn(current_scheduler).result() is elsewhere
    assert found[0] is not current_scheduler()


def test_a_loop_that_runs_gets_one_guest_and_the_next_loop_another() -> None:
    async def twice() -> list[dhaga.Scheduler]:
        return [current_scheduler(), current_scheduler(), await dhaga.spawn(current_scheduler)]

    former = None
    for _ in range(2):
        one, two, three = asyncio.run(twice())
        assert one is two is three and one is not former
        assert one.name.startswith("guest of")
        former = one


def test_without_free_fds_a_thread_gets_an_error_and_may_try_again() -> None:
    full = OSError(errno.EMFILE, "too many open files")
    before, seen = testing.open_fds(), []

    def tries_twice() -> None:
        with mock.patch("dhaga._kernel.run.attachment.new_poller", side_effect=full):
            seen.append(error_of(lambda: dhaga.spawn(int)))
        seen.append(testing.open_fds() == before)
        seen.append(dhaga.spawn(int).result())

    thread = threading.Thread(target=tries_twice)
    thread.start()
    thread.join()
    assert seen == [full, True, 0]


def test_without_free_fds_main_code_gets_an_error_and_then_a_scheduler_that_signals_wake() -> None:
    code = """
        import os, signal
        from unittest import mock
        import dhaga
        from dhaga._kernel.process import signals

        fds = len(os.listdir("/dev/fd"))
        with mock.patch.object(signals, "WakeupPipe", side_effect=OSError("too many open files")):
            try:
                dhaga.spawn(int)
            except OSError as error:
                print(error, len(os.listdir("/dev/fd")) - fds)
        print(dhaga.spawn(int).result(), signal.getsignal(signal.SIGINT) is signals.on_ctrl_c)
    """
    assert prints(code) == ["too many open files 0", "0 True"]
