"""The hooks: the kernel's only way to call functions of the packages that import the kernel. Calls to the
operating system that a simulation replaces are in ``outside.py``.

| hook                       | called by, and when                                     | listener                  |
|----------------------------|---------------------------------------------------------|---------------------------|
| ``on_spawn``               | ``Scheduler.admit``, with each new dhaga                | ``debug/_spawn_sites``,   |
|                            |                                                         | ``simulation``            |
| ``on_wake``                | ``Waiter.deliver_wake``, before each wake, in the       | ``debug/_instrumentation``|
|                            | waker's thread                                          |                           |
| ``on_park_error``          | ``Waiter._throw_error``, with the error that a park is  | ``asyncio``               |
|                            | about to raise                                          |                           |
| ``on_preemption``          | ``preemption.end_turn``, with the dhaga or main code    | ``debug/_instrumentation``|
|                            | and the line where its turn ends                        |                           |
| ``on_scheduler``           | ``Scheduler._attach`` (True), ``_detach_thread`` (False)| ``debug/_instrumentation``|
|                            |                                                         | , ``interpreter_lock``,   |
|                            |                                                         | ``process/preemption_     |
|                            |                                                         | watcher``                 |
| ``on_lap``                 | ``Lap._run``, before the dhagas of a lap run            | ``process/preemption_     |
|                            |                                                         | watcher``                 |
| ``on_first_wait``          | ``current.first_waiter``, in main code of the main OS   | ``process/current_        |
|                            | thread without a scheduler; the listener makes one      | scheduler``               |
| ``on_main_code``           | ``ImplicitMode``, with the main code that got its       | ``run/running_loop``      |
|                            | scheduler                                               |                           |
| ``on_event_loop``          | ``asyncio.SelectorEventLoop``, with each new loop       | ``simulation``            |
| ``Scheduler.around_park``  | ``Scheduler._park``, in place of the switch             | ``run/running_loop``,     |
|                            |                                                         | ``run/tracing``,          |
|                            |                                                         | ``process/fork``          |
| ``before_fd_close``        | ``FdWatchers.close``, ``_iowait/fd_ops.close``, by fd   | ``_iowait/fd_set``        |
| ``left_at_exit``           | ``process_exit.is_told``, to ask whether a dhaga is     | ``threading``, ``thread``,|
|                            | like a daemon thread: the exit does not cancel it       | ``compat``                |
| ``before_cancel_at_exit``  | ``process_exit.end_daemons``, while daemon dhagas run   | ``integrations/grpc``     |
| ``after_dhagas_at_exit``   | ``process_exit.end_daemons``                            | ``_workers/offload``      |
| ``in_forked_child``        | ``fork.call_child_hooks``, after the kernel's handler   | ``threading``, ``debug``, |
|                            |                                                         | and others                |
| ``deadlock.mark_idle``     | a helper thread, before it waits for work               | ``deadlock.DeadlockWatch``|

A hook has no effect while it is unset. A hook runs in the thread and greenlet of its caller. Except for the hooks
called at exit, a hook must neither park nor raise. A list or dict holds several listeners, a plain global at most one.
One function is replaced without a hook: ``process_exit.outlast_getcurrent`` rebinds ``getcurrent`` in every module at
interpreter exit. A hook in each lock instead would make locks 10 % slower, and only finalizers in the last milliseconds
would use the hook.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Arguments have the type Any: exact types would make this file depend on the files that call the hooks.

# This hook is called by the spawning code, so the stack shows the place of the spawn.
on_spawn: Callable[[Any], object] | None = None

# This hook is read at every wake. A global that is None adds 2 ns to a wake; an empty list would add a loop.
on_wake: Callable[[Any], object] | None = None

on_park_error: Callable[[Any, BaseException], object] | None = None

on_preemption: Callable[[Any, str], object] | None = None

# This hook is set while the preemption watcher sleeps; each lap reads the hook once.
on_lap: Callable[[], object] | None = None

# Listeners get True when a scheduler has been bound to its thread, and False when the scheduler releases the thread.
on_scheduler: list[Callable[[Any, bool], object]] = []

# This hook is reset to None at interpreter exit, because nothing would end the dhagas of a scheduler made later.
on_first_wait: Callable[[], object] | None = None

on_main_code: Callable[[Any], object] | None = None

on_event_loop: Callable[[Any], object] | None = None

# The callbacks of each fd. They are found by the fd's number, because calls such as select() know only this number, and
# the object that closes the fd does not know these calls. From a dictionary, a callback is removed in O(1). The
# values are callbacks for an fd whose file ``dup2`` replaces, or None.
before_fd_close: dict[int, dict[Callable[[], object], Callable[[], object] | None]] = {}

left_at_exit: list[Callable[[Any], bool]] = []

# Work that needs living daemon dhagas. The exit cancels the daemon dhagas right after this work.
before_cancel_at_exit: list[Callable[[], object]] = []

# Work to do when all dhagas have ended: the joins of helper threads, which dhagas may have used until then.
after_dhagas_at_exit: list[Callable[[], object]] = []

# These hooks are called in the order of registration, after ``fork.after_fork_in_child``. They may call Dhaga.
in_forked_child: list[Callable[[], object]] = []
