"""The ready tasks of an asyncio loop, in an order that the strategy chooses. The option ``tasks`` turns this order on.

asyncio runs ready tasks in order of arrival. Simulations without the option do the same. Callbacks keep their order,
which asyncio guarantees, and no task overtakes a callback. So only tasks that are adjacent in the queue are permuted.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from .members import Member
    from .run import Run


class TaskQueue(deque[Any]):
    """The queue of one loop's ready handles. ``number``: the number of the loop, in order of creation."""

    def __init__(self, run: Run, number: int) -> None:
        super().__init__()
        self.run = run
        self.members: WeakKeyDictionary[Any, Member] = WeakKeyDictionary()
        self.last = run.members.of_name(f"event loop {number}")
        self.task: Any = None

    def popleft(self) -> Any:
        run = self.run
        tasks = self.first_tasks()
        if not tasks or run.over or run.failure is not None:
            run.tasks.pop(run.running, None)
            return super().popleft()
        ready = [self.member_of(task) for task in tasks]
        index = run.choose(self.last, ready)
        run.note_task(self.last, self.why(), ready[index])
        self.last, self.task = ready[index], tasks[index]
        handle = self[index]
        del self[index]
        return handle

    def first_tasks(self) -> list[Any]:
        """Return the tasks whose steps are at the head of the queue, before the first other callback."""
        found: list[Any] = []
        for handle in self:
            task = task_of(handle)
            if task is None:
                break
            found.append(task)
        return found

    def member_of(self, task: Any) -> Member:
        found = self.members.get(task)
        if found is None:
            coroutine = getattr(task.get_coro(), "__qualname__", "a coroutine")
            found = self.members[task] = self.run.members.new(f"{task.get_name()} ({coroutine})")
            self.run.chooser.became_ready(found)
        return found

    def why(self) -> str:
        """Return a text about why the last task has stopped."""
        if self.task is None:
            return "begins"
        if not self.task.done():
            return "is about to be cancelled" if self.task.cancelling() else "awaits"
        if self.task.cancelled():
            return "is cancelled"
        # This reads a private attribute, because after a call of exception() asyncio would not log the error.
        standard = self.task
        error = standard._exception
        return "ends" if error is None else f"fails: {type(error).__name__}"


def task_of(handle: Any) -> Any:
    """Return the task whose step a handle runs; None if the handle is cancelled or runs another callback."""
    owner = getattr(getattr(handle, "_callback", None), "__self__", None)
    return owner if isinstance(owner, asyncio.Task) and not handle.cancelled() else None
