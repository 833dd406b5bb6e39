"""kqueue objects: ``control`` parks, and all else is as with the standard ones. Run by ``make test-kqueue``."""

from __future__ import annotations

import errno
import os
import select as standard
from typing import Any

import pytest

import dhaga
from dhaga import select
from dhaga.testing import settle, virtual_clock
from tests.kit.pollers import has_kqueue
from tests.kit.scripts import prints
from tests.kit.selects import pair

pytestmark = has_kqueue


def reads(sock: Any, flags: int) -> Any:
    return select.kevent(sock, select.KQ_FILTER_READ, flags)


def test_control_makes_changes_and_reports_events() -> None:
    with virtual_clock() as clock, pair() as (one, other):
        kqueue = select.kqueue()
        assert kqueue.control([reads(one, select.KQ_EV_ADD)], 0) == []
        assert kqueue.control(None, 1, 2.5) == [] and clock() == 2.5
        d = dhaga.spawn(kqueue.control, None, 1)
        settle()
        assert f"WAITING read fd {kqueue.fileno()}" in repr(d)
        other.send(b"x")
        assert [(event.ident, event.filter) for event in d.result(30)] == [(one.fileno(), select.KQ_FILTER_READ)]
        assert kqueue.control([reads(one, select.KQ_EV_DELETE)], 1, 0) == []
        kqueue.close()


def test_a_change_that_fails_raises_or_is_an_event() -> None:
    kqueue = select.kqueue()
    with pair() as (one, _):
        with pytest.raises(FileNotFoundError):
            kqueue.control([reads(one, select.KQ_EV_ENABLE)], 0)
        (failed,) = kqueue.control([reads(one, select.KQ_EV_ENABLE)], 1)
        assert failed.flags & select.KQ_EV_ERROR and failed.data == errno.ENOENT
    kqueue.close()


def test_closing_an_fd_ends_its_registration_and_the_next_file_of_the_number_has_none() -> None:
    """kqueue(2): "Calling close() on a file descriptor will remove any kevents that reference the descriptor"; ENOENT:
    "The event could not be found to be modified or deleted". The poller tells a reused number by that.
    """
    kqueue = select.kqueue()
    with pair() as (one, _):
        number = one.detach()
        kqueue.control([reads(number, select.KQ_EV_ADD)], 0)
        kqueue.control([reads(number, select.KQ_EV_ENABLE)], 0)
        os.close(number)
        with pair() as (new, peer):
            assert number in (new.fileno(), peer.fileno())
            for flags in (select.KQ_EV_ENABLE, select.KQ_EV_DISABLE, select.KQ_EV_DELETE):
                with pytest.raises(FileNotFoundError):
                    kqueue.control([reads(number, flags)], 0)
            kqueue.control([reads(number, select.KQ_EV_ADD)], 0)
            kqueue.control([reads(number, select.KQ_EV_ENABLE)], 0)
    kqueue.close()


def test_control_takes_at_most_so_many_events() -> None:
    with pair() as (one, other):
        kqueue = select.kqueue()
        changes = [select.kevent(each, select.KQ_FILTER_WRITE, select.KQ_EV_ADD) for each in (one, other)]
        kqueue.control(changes, 0)
        assert len(kqueue.control(None, 1, 1)) == 1 and len(kqueue.control(None, 5, 1)) == 2
        kqueue.close()


def test_control_sees_what_is_registered_while_it_waits() -> None:
    with pair() as (one, other):
        kqueue = select.kqueue()
        other.send(b"x")
        d = dhaga.spawn(kqueue.control, None, 1, 5)
        settle()
        kqueue.control([reads(one, select.KQ_EV_ADD)], 0)
        assert [event.ident for event in d.result(30)] == [one.fileno()]
        kqueue.close()


def test_closing_a_kqueue_wakes_whoever_waits_on_it() -> None:
    kqueue = select.kqueue()
    d = dhaga.spawn(kqueue.control, None, 1)
    settle()
    kqueue.close()
    with pytest.raises(OSError) as info:
        d.result(30)
    assert info.value.errno == errno.EBADF
    assert kqueue.closed and repr(kqueue) == "<kqueue closed>"
    with pytest.raises(ValueError):
        kqueue.fileno()


@pytest.mark.parametrize(("timeout", "error"), [("1", TypeError), (-1, ValueError), (float("nan"), ValueError)])
def test_control_refuses_what_is_no_timeout(timeout: Any, error: type[BaseException]) -> None:
    kqueue = select.kqueue()
    with pytest.raises(error):
        kqueue.control(None, 1, timeout)
    with pytest.raises(ValueError):
        kqueue.control(None, -1, 0)
    kqueue.close()


def test_kevents_and_constants_are_the_standards() -> None:
    for name in ("kevent", "KQ_EV_ADD", "KQ_FILTER_READ"):
        assert getattr(select, name) is getattr(standard, name)


def test_a_patched_programs_kqueue_parks_and_new_schedulers_keep_the_standard_one() -> None:
    assert prints("""
        import dhaga.monkey
        dhaga.monkey.patch()
        import select, socket, threading, time
        one, other = socket.socketpair()
        kqueue = select.kqueue()

        def send():
            time.sleep(0.01)
            other.send(b"x")

        thread = threading.Thread(target=send)
        thread.start()
        found = kqueue.control([select.kevent(one, select.KQ_FILTER_READ, select.KQ_EV_ADD)], 1)
        print(found[0].ident == one.fileno())
        thread.join()
        with dhaga.Scheduler() as scheduler:
            print(scheduler.spawn(one.recv, 1).result())
    """) == ["True", "b'x'"]
