"""No user's context reaches another user: code sees no more of its starter's state than in the standard counterpart.

``tests/kit/contexts`` makes the tables: ways to start code x states (context variables, ``threading.local``, Flask's
and Django's request, OpenTelemetry's context). A plain interpreter shows what the standard library does.
"""

from __future__ import annotations

import functools
import sys

import pytest

from tests.kit.contexts import IN_THE_CONTEXT, Table, exposes, table

PATCHED = ("-m", "dhaga")
FLAGS: list[tuple[str, ...]] = [()]
EMPTY: tuple[str, ...] = ()
"""With these flags threads start with an empty context; on free-threaded builds they inherit one by default."""
if sys.version_info >= (3, 14):
    FLAGS += [("-X", "thread_inherit_context=1")]
    EMPTY = ("-X", "thread_inherit_context=0")

THREAD = "Thread, from thread"
POOLED = "ThreadPoolExecutor.submit, from main code"
SERVED = "ThreadingHTTPServer"
COUNTERPARTS = {
    **dict.fromkeys(("Executor", "OffloadPool", "Pool.", "Pool,", "Celery", "offload", "ThreadPool", "tpool"), POOLED),
    **dict.fromkeys(("hub.threadpool",), POOLED),
    **dict.fromkeys(("TCPServer", "http.wsgi", "StreamServer", "pywsgi", "serve", "wsgi"), SERVED),
}
"""Standard counterparts of our ways to start code, by the beginnings of their names. All others have THREAD."""

INHERITING = {THREAD: "asyncio to_thread, from coroutine", POOLED: "asyncio to_thread, from coroutine"}
INHERITING[SERVED] = "asyncio.start_server"
"""For each counterpart, the standard way that carries a context as our own ways do."""

standard = functools.cache(functools.partial(table, "standard"))


def of_threads(way: str) -> str:
    return next((theirs for ours, theirs in COUNTERPARTS.items() if way.startswith(ours)), THREAD)


def more_than(plain: Table, ours: Table, way: str, state: str, theirs: str) -> set[str]:
    return exposes(ours, way, state) - exposes(plain, theirs, state)


@pytest.mark.long("starts a Python for each way to run code")
@pytest.mark.parametrize("flags", FLAGS, ids=" ".join)
def test_patched_code_sees_what_it_sees_without_dhaga(flags: tuple[str, ...]) -> None:
    plain, patched = standard(*flags), table("standard", *flags, *PATCHED)
    assert plain.keys() == patched.keys()
    assert {way: seen for way, seen in patched.items() if seen != plain[way]} == {}


@pytest.mark.parametrize("flags", FLAGS, ids=" ".join)
def test_a_thread_of_our_faces_sees_what_a_standard_one_does(flags: tuple[str, ...]) -> None:
    """Django's state is left out: without the patch asgiref knows only the OS thread, which dhagas share."""
    plain, faces = standard(*flags), table("faces", *flags)
    assert len(faces) >= 8
    for way, by_user in faces.items():
        for user, seen in by_user.items():
            for state in (*IN_THE_CONTEXT, "thread_local"):
                assert seen.get(state) == plain[way][user].get(state), (way, user, state)


@pytest.mark.long("starts a Python for each way to run code")
def test_our_own_ways_carry_the_callers_context_for_one_call_alone() -> None:
    plain, ours = standard(), table("ours", *PATCHED)
    for way, by_user in ours.items():
        theirs = of_threads(way)
        for state in by_user["alice"]:
            counterpart = INHERITING[theirs] if state in IN_THE_CONTEXT else theirs
            assert more_than(plain, ours, way, state, counterpart) == set(), (way, state)


@pytest.mark.long("starts a Python for each way to run code")
@pytest.mark.parametrize("package", ["gevent", "eventlet"])
def test_what_compat_starts_has_an_empty_context(package: str) -> None:
    """``tests/packages/test_contexts.py`` compares compat with the original, where that is installed."""
    plain, ours = standard(*EMPTY), table(f"{package}s", *PATCHED, "--as", package)
    for way, by_user in ours.items():
        for state in by_user["alice"]:
            if not way.startswith("hub:"):  # called on the hub, which has the thread-locals of main code
                counterpart = THREAD if state in IN_THE_CONTEXT else of_threads(way)
                assert more_than(plain, ours, way, state, counterpart) == set(), (way, state)
