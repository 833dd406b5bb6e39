"""Portraits: a look at one dhaga alone, with its stack, which holds nobody else up."""

from __future__ import annotations

from dataclasses import replace

from greenlet import getcurrent

from dhaga.events import Event
from dhaga.kernel.microthread import RUNNING
from dhaga.kernel.waiter import Waiter

from .stacks import stacks_of_threads
from .views import PATIENCE, DhagaView, view_of


def portrait(waiter: Waiter, patience: float = PATIENCE) -> DhagaView:
    """Look at a dhaga or main code in its thread; if that is held for so many seconds, from outside.

    Parks: meanwhile (``event.wait``). From: any OS thread.
    """
    seen: list[DhagaView] = []
    looked = Event()

    def look() -> None:
        seen.append(view_of(waiter, getcurrent()))
        looked.set()

    scheduler = waiter.scheduler
    if scheduler.call(look):
        looked.wait(patience)
    if seen:
        return seen[0]
    view = view_of(waiter)
    return view if view.state != RUNNING else replace(view, stack=stacks_of_threads().get(scheduler.ident, ()))
