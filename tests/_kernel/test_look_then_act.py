"""State that several OS threads share is not read in one step and changed in the next.

Another thread may run between a look and the change that follows from it: anywhere on a free-threaded build, after each
call on other builds. So look and change are in one line, tagged ``# atomic`` (test_atomic_lines.py), in one operation
of a list, dict or deque that decides by itself, or under a lock. The test reads the source for looks that are followed
by a change of the same attribute, and for ``+=`` of an attribute. Each untagged one is listed here with the reason.
"""

from __future__ import annotations

import ast
import pathlib
from collections.abc import Iterator

import pytest

import dhaga
from dhaga._kernel.interpreter.atomic_lines import tagged_lines

PACKAGE = pathlib.Path(dhaga.__file__).parent
DISTRICTS = "_kernel", "_sync", "_workers", "_iowait", "queue.py", "futures.py", "metrics.py", "pool.py"
CHANGES = {"add", "append", "clear", "discard", "pop", "popitem", "popleft", "remove"}

EXCUSED = {
    "no other thread has the terminal's flags, read just before, or watches this victim": """
        _iowait/kernel_fds.py splice: os.get_blocking
        _iowait/terminal.py keys_passed_on: keys[3]
        _kernel/process/victims.py EventWatch.begin: victim.result_waiters
        _kernel/process/victims.py EventWatch.is_nth: self.events_left
        _kernel/process/victims.py ParkWatch.note_park: self.parks_left
        _kernel/process/victims.py ParkWatch.note_wake: self.parks_left
    """,
    "no other thread has the scheduler's own parts": """
        _kernel/process/signals.py hold_off: held_off[4]
        _kernel/process/signals.py listen_for_signals: selector.own_fds
        _kernel/run/lap.py Lap._end_lap: self._counted_switches
        _kernel/run/lap.py Lap._end_lap: self.busy_seconds
        _kernel/run/lap.py Lap._end_lap: self.laps
        _kernel/run/lap.py Lap._end_stretch: self._uncounted_from
        _kernel/run/lap.py Lap._lap_is_over: self._checks_left
        _kernel/run/lap.py Lap._lap_is_over: self._counted_switches
        _kernel/run/lap.py Lap._lap_is_over: self._full_laps
        _kernel/run/lap.py Lap._prevent_starvation: self._low
        _kernel/run/lap.py Lap._run: self._busy_since
        _kernel/run/loop.py HubSelector.close: self.wakeup_pipe
        _kernel/run/loop.py HubSelector.protect: self.protected_fds
        _kernel/run/edge_pollers.py Epoll.poll: self.events
        _kernel/run/edge_pollers.py Epoll.poll: self.polls_until_recheck
        _kernel/run/ioloop_poller.py IOLoopPoller.close_duplicate: self.open_duplicates
        _kernel/run/ioloop_poller.py IOLoopPoller.handle: self.events
        _kernel/run/edge_pollers.py Kqueue.poll: self.events
        _kernel/run/edge_pollers.py Kqueue.poll: self.polls_until_recheck
        _kernel/run/new_work.py begin_new_work: me.wake_queue
        _kernel/run/new_work.py begin_new_work: scheduler.units_in_progress
        _kernel/run/new_work.py end_work: scheduler.units_in_progress
        _kernel/run/preemption.py end_turn: scheduler.preemptions
        _kernel/run/preemption.py no_preempt: uninterrupted[me]
        _kernel/run/run_modes.py ImplicitMode.__init__: hooks.on_main_code
        _kernel/run/run_queues.py NewWorkQueue.promote_starved: self.full_laps
        _kernel/run/run_queues.py NewWorkQueue.promote_starved: self.head
        _kernel/run/scheduler.py Scheduler._let_others_run: self._switches_left
        _kernel/run/scheduler.py Scheduler._let_others_run: self.around_park
        _kernel/run/scheduler.py Scheduler._park: self.around_park
        _kernel/run/scheduler.py Scheduler._run_lap: self._next_on_hub
        _kernel/run/scheduler.py Scheduler._run_lap: self._switches_left
        _kernel/run/scheduler.py Scheduler._switch_away: self.run_queue
        _kernel/run/timers.py LoopTimer.cancel: self.handle
        _kernel/run/timers.py Timers.discard: self.discarded
        _kernel/run/timers.py Timers.fire: self.discarded
        _kernel/run/timers.py Timers.fire: self.fired
        _kernel/run/timers.py Timers.fire_urgent: self.discarded
        _kernel/run/timers.py Timers.fire_urgent: self.fired
        _kernel/run/timers.py Timers.next_deadline: self.discarded
        _workers/offloaded_call.py outside_call: scheduler.outside_calls
    """,
    "only the waiter itself takes what is pending, and looks at its own thread's entry": """
        _iowait/file_state.py FileState.raise_late_cancel: me.pending_errors
        _kernel/timeout.py Timeout.__exit__: waiter.pending_errors
        _kernel/process/thread_end.py ThreadEnd.__del__: this_thread.main
        _kernel/process/signals.py SignalDelivery.run_handlers: this_thread.main
        _kernel/process/signals.py SignalDelivery.step_back: main.pending_errors
        _kernel/process/signals.py signal_delivery_of: main._signals
        _kernel/run/microthread.py Dhaga.drop_at_end: self.thread_local_refs
        _kernel/run/run_modes.py ImplicitMode.__init__: this_thread.main
        _kernel/run/microthread.py Dhaga.run: self.pending_errors
        _kernel/run/thread_local_refs.py ThreadLocalRefs.append: self.limit
        _kernel/wait/waiter.py Waiter.prepare_park: self.pending_errors
        _sync/condition.py Condition._wait_at_gate: me.pending_errors
        _workers/dhaga_pool.py PoolWorker.drop_late_cancels: self.pending_errors
        _workers/worker_threads.py WorkerThread.run: self.run_next_call
        _workers/worker_threads.py WorkerThread.take_mask: self.mask
    """,
    "only the holder of the lock comes here": """
        _iowait/tls_waits.py TLSWaits.wait: self.reading_writer
        _iowait/file_state.py FileState.acquire_to_close: self._count
        _kernel/wait/wait_queue.py WaitQueue.begin_epoch: self.epoch
        _sync/lock.py RLock.acquire: self._count
        _sync/lock.py RLock.release: self._count
    """,
    "under a lock": """
        _iowait/socket_sendfile.py SendfileSocket.end_sendfile_: self.sendfiles_
        _kernel/process/preemption_watcher.py Watcher._run: self.looks
        _kernel/process/preemption_watcher.py Watcher._stop_thread: self.alive
        _sync/barrier.py Barrier._break: generation.broken
        _sync/barrier.py Barrier._open_: self._action
        _sync/barrier.py Barrier.wait: generation.arrived
        _sync/completion.py Completions.leave: future._waiters
        _workers/future.py Future._begin: self._state
        _workers/future.py Future._end: self._worker
        _workers/switch_interval.py SwitchInterval.begin: self.running_calls[urgency]
        _workers/switch_interval.py SwitchInterval.end: self.running_calls[urgency]
        _workers/worker_threads.py Workers.end_if_idle: self.idle
        _workers/worker_threads.py Workers.next_call: self.calls
        queue.py Queue._admit_: self.unfinished_tasks
        queue.py Queue._admit_putters_: self.unfinished_tasks
        queue.py Queue._watched_: self._watchers_
        queue.py Queue.put: self.unfinished_tasks
        queue.py Queue.shutdown: self.unfinished_tasks
        queue.py Queue.task_done: self.unfinished_tasks
    """,
    "checked again after the change": """
        _iowait/socket_base.py TimeoutSocket.fd_watcher: self.watcher_
        _iowait/socket_base.py TimeoutSocket.fd_watcher: watcher.short_read_means_empty
        _iowait/socket_base.py TimeoutSocket.settimeout: self.call_timeout_
        _kernel/wait/cancellation.py pending_errors_of: waiter.pending_errors
    """,
    "each caller closes what it has replaced": """
        _iowait/file_state.py FileState.acquire_to_close: self.watchers
    """,
    "the pop tells which thread was faster": """
        _kernel/run/edge_pollers.py EdgeTriggered.unregister: self.watchers
        _sync/simple_queue.py SimpleQueue.get: self._items_
        _workers/dhaga_pool.py SchedulerWorkers.wake_one: self.free_numbers
    """,
    "about right is enough": """
        _iowait/socket_base.py TimeoutSocket.count_send: self.sends_until_check
        _kernel/run/tracing.py Everywhere.set: self.times
        _kernel/run/preemption.py end_turn: places[kept]
        _kernel/wait/wait_queue.py WaitQueue._remove: self.void
        _workers/future.py Future._remove: self._left_joiners
    """,
    "no state: set once, or not shared": """
        _kernel/process/wakeup_detour.py Resend.send_once: self.times
        _kernel/interpreter/atomic_lines.py Finder.find_spec: spec.loader
        _kernel/interpreter/atomic_lines.py Guarding.guard: ast.If
        _kernel/helper_threads.py run_unlisted: originals.set_thread_name
        _kernel/process/preemption_watcher.py Watcher._look: beat.looks
        _kernel/process/preemption_watcher.py Watcher._note_long_turn: beat.looks
        _kernel/run/in_flight.py Flight.has_landed: self.events_left
        _kernel/process/preemption_watcher.py watch_scheduler: originals.pthread_getcpuclockid
        _kernel/run/uncaught.py clear_own_frames: trace.tb_frame
        _sync/local.py initialise: type(owner).__init__
        _workers/dhaga_pool.py SchedulerWorkers.start_worker: self.scheduler.live
    """,
}


class Finder(ast.NodeVisitor):
    """Finds the attributes that a module looks at and then changes, each with the name of the function."""

    def __init__(self, tagged: set[int]) -> None:
        self.tagged = tagged
        self.names: list[str] = []
        self.found: list[str] = []

    def visit_ClassDef(self, node: ast.ClassDef | ast.FunctionDef) -> None:
        self.names.append(node.name)
        self.generic_visit(node)
        self.names.pop()

    visit_FunctionDef = visit_ClassDef

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Attribute | ast.Subscript):
            self.note(node, [ast.unparse(node.target)])

    def visit_If(self, node: ast.If) -> None:
        looked_at = {ast.unparse(each) for each in ast.walk(node.test) if isinstance(each, ast.Attribute)}
        changed = [name for statement in node.body[:2] for name in changed_in(statement)]
        self.note(node, sorted(looked_at.intersection(changed)))
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """Find a look and a change without an ``if``: ``hook is not None and hook()``."""
        first, *others = node.values
        looked_at = {ast.unparse(each) for each in ast.walk(first) if isinstance(each, ast.Attribute)}
        self.note(node, sorted(looked_at.intersection(name for each in others for name in changed_in(each))))
        self.generic_visit(node)

    def note(self, node: ast.stmt | ast.expr, names: list[str]) -> None:
        if node.lineno not in self.tagged:
            self.found += [f"{'.'.join(self.names)}: {name}" for name in names]


def changed_in(statement: ast.stmt | ast.expr) -> Iterator[str]:
    """Yield the attributes that a statement assigns, empties, fills or calls."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            yield ast.unparse(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield ast.unparse(node.func)  # a hook may be gone by the time of its call
            if node.func.attr in CHANGES:
                yield ast.unparse(node.func.value)


def findings(source: str) -> list[str]:
    finder = Finder(tagged_lines(source.encode()))
    finder.visit(ast.parse(source))
    return finder.found


def in_package() -> Iterator[str]:
    for district in DISTRICTS:
        path = PACKAGE / district
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            yield from (f"{file.relative_to(PACKAGE)} {each}" for each in findings(file.read_text("utf-8")))


def test_what_threads_share_is_looked_at_and_changed_in_one_step() -> None:
    excused = [line.strip() for lines in EXCUSED.values() for line in lines.strip().splitlines()]
    assert sorted(set(in_package())) == sorted(excused)


@pytest.mark.parametrize(
    ("code", "attribute"),
    [
        ("if hooks.on_wake is not None: hooks.on_wake(self)", "hooks.on_wake"),
        ("return hooks.on_wake is not None and hooks.on_wake(self)", "hooks.on_wake"),
        ("self.count += 1", "self.count"),
        ("if self.ticket:\n        self.ticket.clear()", "self.ticket"),
        ("if self.turn is None:\n        self.turn = 1", "self.turn"),
        ("if a and self.items:\n        x = 1; self.items.popleft()", "self.items"),
    ],
)
def test_it_is_found_unless_it_is_tagged(code: str, attribute: str) -> None:
    first, *others = code.split("\n")
    assert findings(f"def f(self):\n    {code}\n") == [f"f: {attribute}"]
    assert findings("\n".join([f"def f(self):\n    {first}  # atomic", *others, ""])) == []
