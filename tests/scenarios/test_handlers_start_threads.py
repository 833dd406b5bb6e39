"""Main code does not decide before a wait how it waits: a signal handler may start a thread that ends the wait.

Services are stopped so, because a handler must not wait itself. The waits are in ``tests/kit/handler_programs.py``.
"""

from __future__ import annotations

import pytest

from tests.kit.handler_programs import WAITS
from tests.kit.scripts import prints
from tests.scenarios.test_bad_values import TABLE

CODE = (
    "import runpy, sys; sys.argv[1:] = [{way!r}]; runpy.run_module('tests.kit.handler_programs', run_name='__main__')"
)

AS_ANOTHER = {
    "spawn_later": "does not wait",
    "Timeout": "a limit of other waits",
    "Scope": "waits for dhagas, which are alive then",
    "fail_after": "a limit of other waits",
    "move_on_after": "a limit of other waits",
    "race": "waits for dhagas, which are alive then",
    "Dhaga.join": "waits for a dhaga, which is alive then",
    "Dhaga.result": "waits for a dhaga, which is alive then",
    "Thread.join": "waits for a thread, which is alive then",
    "_ThreadHandle.join": "waits for a thread, which is alive then",
    "Scheduler.stop": "waits for an OS thread: Event.wait",
    "OffloadPool.shutdown": "waits for calls: offload",
    "Pool.shutdown": "waits for dhagas, which are alive then",
    "Pool.map": "waits for dhagas, which are alive then",
    "Pool.imap_unordered": "waits for dhagas, which are alive then",
    "Executor.map": "waits for dhagas, which are alive then",
    "await_": "has a scheduler, whose loop it uses",
    "enter": "has a scheduler, whose loop it uses",
    "aiter_": "has a scheduler, whose loop it uses",
    "TCPServer": "does not wait",
    "TCPServer.stop": "a server has a scheduler",
    "TCPServer.serve_forever": "a server has a scheduler",
    "connect": "a stream has a scheduler",
    **{
        f"Stream.{name}": "a stream has a scheduler"
        for name in (
            "read_bytes",
            "read_into",
            "read_until",
            "read_until_regex",
            "read_until_close",
            "write",
            "start_tls",
        )
    },
    "Limits": "does not wait",
    "watch": "does not wait",
    "time.sleep": "sleep",
    "RLock.acquire": "a lock that main code holds is its own: Lock.acquire",
    "Condition.wait_for": "Condition.wait",
    "RateLimiter.acquire": "sleep",
    "Barrier": "does not wait",
    "AllTasksDone.wait": "Queue.join",
    "socket.settimeout": "does not wait",
    "create_connection": "connects at once, or waits as recv",
}
"""Calls with a time that are not made here, and why."""


def test_each_call_with_a_time_is_among_the_waits_or_left_out_with_a_reason() -> None:
    assert {name.partition("(")[0] for name in TABLE} - set(WAITS) == set(AS_ANOTHER)


@pytest.mark.parametrize("way", ["standard", "ours"])
def test_a_handler_starts_a_dhaga_that_ends_the_first_wait_of_main_code(way: str) -> None:
    assert prints(CODE.format(way=way), "-W", "ignore") == [""]


def test_a_handler_starts_a_thread_that_ends_the_first_wait_of_a_patched_program() -> None:
    code = f"import dhaga.monkey; dhaga.monkey.patch(); {CODE.format(way='ours')}"
    assert prints(code, "-W", "ignore") == [""]
