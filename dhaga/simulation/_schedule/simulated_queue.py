"""The run queue of a simulation. It asks the run (``run.py``) for the next entry, and reports each switch to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..._kernel.run.chosen_queue import ChosenQueue
from ..._kernel.run.run_queues import HighQueue
from ..._kernel.run.scheduler import NewQueue
from .members import Member, remove_all, waiters_behind

if TYPE_CHECKING:
    from .run import Run


class SimulatedQueue(ChosenQueue):
    """The run queue of a simulation. ``ready`` contains the members of the entries, in the same order."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run = run
        self.ready: list[Member] = []
        # False after an entry was put at the head. From then on, each call of ``members()`` computes ``ready`` again.
        self.in_order = True

    def append(self, entry: Any) -> None:
        if self.run.dead and entry in self.run.dead:
            return
        if self.run.pauses is None or not self.run.pauses.holds(entry):
            self.add(entry)

    def add(self, entry: Any) -> None:
        """Append an entry, even if its host is paused or slow."""
        super().append(entry)
        self.ready.append(self.run.note_ready(entry))

    def append_preempted(self, me: Any, member: Member) -> None:
        """Append a preempted member, which stays ready and has not yielded."""
        super().append(me)
        self.ready.append(member)

    def appendleft(self, entry: Any) -> None:
        if type(entry) is not HighQueue or self.run.pauses is None or not self.run.pauses.holds(entry):
            self.prepend(entry)

    def prepend(self, entry: Any) -> None:
        """Insert an entry at the head, even if its host is paused or slow."""
        super().appendleft(entry)
        self.run.note_ready(entry)
        self.in_order = False

    def waiters(self) -> list[Any]:
        """Return the waiters of the entries, in order."""
        return waiters_behind(self)

    def members(self) -> list[Member]:
        """Return the members of the entries, in order."""
        if not self.in_order:
            self.ready = [self.run.members.of(waiter) for waiter in self.waiters()]
        return self.ready

    def remove_all(self, unwanted: Callable[[Any], bool]) -> list[tuple[Any, Any]]:
        """Remove the entries of unwanted waiters. Returns: each removed entry with its waiter, in order."""
        return remove_all(self, unwanted, self.members())

    def choose(self) -> int:
        return self.run.next_index(self.members())

    def take(self, index: int) -> Any:
        member = self.members().pop(index)
        waiter = self[index]
        if type(waiter) is NewQueue:
            waiter = self.bring_forward(waiter, index)
        elif type(waiter) is HighQueue:
            waiter = waiter.waiters[0]
        entry = super().take(index)
        self.run.note_switch(member, waiter)
        return entry

    def bring_forward(self, entry: NewQueue, index: int) -> Any:
        """Move the chosen NEW dhaga to the front of its queue, because the hub starts the first dhaga of this queue."""
        starts = entry.not_started
        place = sum(each is entry for each in list(self)[:index]) if index else 0
        waiter = starts[place]
        del starts[place]
        starts.appendleft(waiter)
        return waiter
