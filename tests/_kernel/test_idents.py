"""Idents: whose they are, and the OS threads behind them."""

from __future__ import annotations

import threading

import pytest

import dhaga
from dhaga import Scheduler
from dhaga._kernel.run import idents
from dhaga._kernel.wait.current import this_waiter
from dhaga.testing import virtual_clock


def test_a_dhagas_ident_leads_to_it_and_to_its_os_thread_while_it_lives() -> None:
    with virtual_clock():
        d = dhaga.spawn(dhaga.sleep, 1)
        assert idents.live_dhaga(d.ident) is d
        assert idents.os_thread_of(d.ident) == threading.get_ident()
        d.join()
        assert idents.live_dhaga(d.ident) is None
        with pytest.raises(ProcessLookupError):
            idents.os_thread_of(d.ident)
    with Scheduler() as scheduler:
        d = scheduler.spawn(dhaga.sleep, 10)
        assert idents.os_thread_of(d.ident) == scheduler.thread.ident
        assert idents.live_main(scheduler.thread.ident) is None


def test_an_os_threads_ident_is_its_own() -> None:
    own = threading.get_ident()
    assert idents.os_thread_of(own) == own and not idents.is_dhaga_ident(own)
    with virtual_clock():
        assert idents.live_main(own) is this_waiter()
