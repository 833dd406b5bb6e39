"""The OS threads that Dhaga adds: no signal reaches them, they have names, and none is left at a fork."""

from __future__ import annotations

import ast
import pathlib
import signal
import sys
from collections.abc import Iterator

import pytest

import dhaga
from dhaga._kernel.helper_threads import BLOCKED, signals_blocked
from dhaga._kernel.platform.system import system
from dhaga._kernel.process.preemption_watcher import FORK_COUNTS_BEFORE_HOOKS
from tests.kit.scripts import prints
from tests.kit.sources import sources_with

PREEMPTS_BY_EVENTS = sys.version_info >= (3, 12)

MASKS = """
import os, signal, sys, threading, time, warnings
from dhaga._kernel.helper_threads import BLOCKED
def masks():
    for task in os.listdir("/proc/self/task"):
        if int(task) != os.getpid():
            with open(f"/proc/self/task/{task}/status") as file:
                fields = dict(line.strip().split(":\\t", 1) for line in file if line.startswith(("Name", "SigBlk")))
            yield fields["Name"], {bit + 1 for bit in range(64) if int(fields["SigBlk"], 16) >> bit & 1}
def show():
    deadline = time.monotonic() + 30
    while True:
        try:
            found = list(masks())
        except (FileNotFoundError, ProcessLookupError):  # a thread that ends
            continue
        others = [name for name, blocked in found if not BLOCKED <= blocked]
        if len(found) >= LEAST and not others or time.monotonic() > deadline:  # a worker has its call's mask at first
            break
        time.sleep(0.01)
    print(len(found) >= LEAST, others)
"""


def thread_makers() -> Iterator[str]:
    for path, source in sources_with("Thread", "start_new_thread"):
        for node in ast.walk(ast.parse(source)):
            made = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if made in (
                "originals.Thread",
                "originals.start_new_thread",
                "threading.Thread",
                "_thread.start_new_thread",
            ):
                yield f"{path}: {made}"


def test_one_module_starts_helper_threads() -> None:
    assert list(thread_makers()) == [
        "_kernel/helper_threads.py: originals.start_new_thread",
        "_kernel/run/run_modes.py: originals.Thread",  # a scheduler's, which the program asks for
        "simulation/_standard/unsimulated.py: originals.start_new_thread",  # for the program
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the masks of threads")
def test_each_helper_thread_blocks_all_signals(tmp_path: pathlib.Path) -> None:
    """The watcher, idle threads of pools, name look-ups, the watchdog, the inspector, and the dumper."""
    code = f"""
        LEAST = 5
        {MASKS.replace(chr(10), chr(10) + " " * 8)}
        import socket, dhaga, dhaga.debug
        os.system("true")
        socket.getaddrinfo("localhost", 80)
        dhaga.offload(int)
        dhaga.debug.watch(5)
        show()
    """
    lines = prints(
        f"import dhaga.monkey; dhaga.monkey.patch()\nimport textwrap; exec(textwrap.dedent({code!r}))",
        DHAGA_DEBUG="1",
        DHAGA_DUMP_SIGNAL="USR1",
        DHAGA_DUMP_FILE=str(tmp_path / "dump"),
        XDG_RUNTIME_DIR=str(tmp_path),
    )
    assert lines == ["True []"]


def test_an_offloaded_call_has_the_mask_of_its_caller() -> None:
    """A process that the call starts inherits the mask; an idle thread of the pool blocks all signals."""
    with dhaga.OffloadPool("masks", 1) as pool:
        assert pool.offload(system.signal_mask) == system.signal_mask()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
        try:
            assert signal.SIGUSR2 in pool.offload(system.signal_mask)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR2})
        assert signal.SIGUSR2 not in pool.offload(system.signal_mask)


def test_the_mask_is_the_former_one_after_a_handler_has_raised() -> None:
    def raises(*_: object) -> None:
        raise ZeroDivisionError

    before, former = system.signal_mask(), signal.signal(signal.SIGUSR2, raises)
    try:
        with pytest.raises(ZeroDivisionError), signals_blocked():
            assert system.signal_mask() >= BLOCKED
            signal.raise_signal(signal.SIGUSR2)
        assert system.signal_mask() == before
    finally:
        signal.signal(signal.SIGUSR2, former)


def test_faults_are_not_blocked_so_that_faulthandler_reports_them() -> None:
    assert signal.SIGSEGV not in BLOCKED and signal.SIGTERM in BLOCKED


@pytest.mark.skipif(sys.version_info < (3, 12), reason="earlier Pythons do not warn")
def test_a_fork_warns_of_no_helper_thread() -> None:
    code = """
        from os import fork as standard_fork
        import dhaga.monkey; dhaga.monkey.patch()
        import os, socket, time, dhaga
        for fork in [os.fork] * 5 + [standard_fork] * 5:
            os.system("true")
            dhaga.offload(int)
            socket.getaddrinfo("localhost", 80)
            pid = fork()
            if not pid:
                os._exit(0)
            os.waitpid(pid, 0)
        print(dhaga.offload(pow, 2, 2))
    """
    assert prints(code, "-W", "always::DeprecationWarning") == ["4"]


@pytest.mark.skipif(not PREEMPTS_BY_EVENTS, reason="3.11 preempts at calls")
@pytest.mark.parametrize("fork", ["os.fork", "os.forkpty", "originals.fork"])
def test_a_parent_is_preempted_after_a_fork_before_it_parks(fork: str) -> None:
    """This holds also for the standard function, which C libraries and programs without the patch call."""
    if fork == "originals.fork" and not FORK_COUNTS_BEFORE_HOOKS:
        pytest.skip("a hook of the fork that starts a thread would make it warn")
    code = f"""
        import os
        class originals: fork = os.fork
        import dhaga.monkey; dhaga.monkey.patch()
        import threading, time
        ticks = []
        def tick():
            while True:
                time.sleep(0.005)
                ticks.append(1)
        threading.Thread(target=tick, daemon=True).start()
        time.sleep(0.05)
        pid = {fork}()
        if not (pid[0] if isinstance(pid, tuple) else pid):
            os._exit(0)
        deadline, before = time.monotonic() + 30, len(ticks)
        while len(ticks) < before + 3 and time.monotonic() < deadline:
            pass
        print(len(ticks) >= before + 3, flush=True)
    """
    assert prints(code, "-W", "always::DeprecationWarning") == ["True"]
