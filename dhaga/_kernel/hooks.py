"""Hooks of the kernel: districts above it listen here. Each callback from the kernel to a higher district goes through
this table. Calls to the operating system that a simulation answers: ``outside.py``.

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
|                            | thread without a scheduler, which the listener makes    | scheduler``               |
| ``on_main_code``           | ``ImplicitMode``, with the main code that got its       | ``run/running_loop``      |
|                            | scheduler                                               |                           |
| ``on_event_loop``          | ``asyncio.SelectorEventLoop``, with each new loop       | ``simulation``            |
| ``Scheduler.around_park``  | ``Scheduler._park``, in place of the switch             | ``run/running_loop``,     |
|                            |                                                         | ``run/tracing``           |
| ``before_fd_close``        | ``FdWatchers.close``, ``_iowait/fd_ops.close``, by fd   | ``_iowait/fd_set``        |
| ``left_at_exit``           | ``shutdown.is_told``, whether a dhaga is left where it  | ``threading``, ``thread``,|
|                            | is, as a daemon thread is: the exit does not cancel it  | ``compat``                |
| ``before_cancel_at_exit``  | ``shutdown.end_daemons``, while daemon dhagas still run | ``integrations/grpc``     |
| ``after_dhagas_at_exit``   | ``shutdown.end_daemons``                                | ``_workers/offload``      |
| ``in_forked_child``        | ``fork.call_child_hooks``, after the kernel's handler   | ``threading``, ``debug``  |
| ``deadlock.mark_idle``     | a helper thread that waits for work, of itself          | ``deadlock.DeadlockWatch``|

A hook has no effect while it is unset, runs where its caller runs, and must neither park nor raise. A list or
dict holds several listeners, a plain global at most one.
One function is nevertheless replaced from elsewhere: ``shutdown.outlast_getcurrent`` rebinds ``getcurrent`` in every
module at interpreter exit. (A hook in each lock would slow locks by 10 %, only for finalizers in the last
milliseconds.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Arguments are Any: with their classes, this file would know the files that call it.

# In the spawner, whose stack is the spawn site.
on_spawn: Callable[[Any], object] | None = None

# Read at every wake. A global that is None costs a wake 2 ns; an empty list would cost a loop.
on_wake: Callable[[Any], object] | None = None

on_park_error: Callable[[Any, BaseException], object] | None = None

on_preemption: Callable[[Any, str], object] | None = None

# Set while the preemption watcher sleeps; read once a lap.
on_lap: Callable[[], object] | None = None

# True once a scheduler is bound to its thread, False when it releases the thread.
on_scheduler: list[Callable[[Any, bool], object]] = []

# None again at interpreter exit, once no handler can start a dhaga.
on_first_wait: Callable[[], object] | None = None

on_main_code: Callable[[Any], object] | None = None

on_event_loop: Callable[[Any], object] | None = None

# Callbacks by fd: select() and friends watch a bare number, and the object that closes the fd knows nothing of them.
# Dictionaries, because one of many callbacks is removed in O(1).
before_fd_close: dict[int, dict[Callable[[], object], None]] = {}

left_at_exit: list[Callable[[Any], bool]] = []

# Work that still needs daemon dhagas, which are cancelled right after it.
before_cancel_at_exit: list[Callable[[], object]] = []

# Work that must outlast every dhaga: the joins of helper threads, which dhagas may have been using.
after_dhagas_at_exit: list[Callable[[], object]] = []

# In the order of their registration, once the kernel has a new main code: they may call Dhaga.
in_forked_child: list[Callable[[], object]] = []
