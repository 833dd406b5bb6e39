"""Deadlines over computing code: which code a cancel or an expired timeout strikes, and which it never does."""

from __future__ import annotations

import ast
import contextlib
import ctypes
import functools
import inspect
import io
import sys
import textwrap
from collections.abc import Callable, Generator, Iterator
from types import CodeType
from typing import Any

import pytest

import dhaga
from dhaga import threading
from dhaga._kernel.run import deadline_strikes
from tests._kernel.test_preemption_strikes import needs_events

# ---- code that is struck

stop: list[int] = []


def loop() -> None:
    while not stop:
        pass


def recurse(depth: int = 12) -> int:
    return depth if depth < 2 else recurse(depth - 1) + recurse(depth - 2)


def call() -> None:
    while not stop:
        recurse()


def comprehend() -> None:
    while not stop:
        [each + 1 for each in range(100)]


def generate() -> None:
    sum(1 for _ in iter(lambda: len(stop), 1))


def poll() -> None:
    event = threading.Event()
    while not event.is_set():
        pass


COMPUTING = [loop, call, comprehend, generate, poll]


def bounded(compute: Callable[[], None]) -> bool:
    try:
        with dhaga.Timeout(0.01):
            compute()
    except TimeoutError:
        return True
    return False


def moved_on(compute: Callable[[], None]) -> bool:
    with dhaga.move_on_after(0.01) as scope:
        compute()
    return scope.expired and scope.cancelled_caught


@needs_events
@pytest.mark.parametrize("bound", [bounded, moved_on])
@pytest.mark.parametrize("compute", COMPUTING)
def test_a_deadline_strikes_code_that_computes(
    preemptive: dhaga.Scheduler, compute: Callable[[], None], bound: Callable[[Callable[[], None]], bool]
) -> None:
    assert preemptive.spawn(bound, compute).result()


@needs_events
@pytest.mark.parametrize("compute", COMPUTING)
def test_a_cancel_strikes_code_that_computes(preemptive: dhaga.Scheduler, compute: Callable[[], None]) -> None:
    ended: list[str] = []

    def victim() -> None:
        try:
            compute()
        finally:
            ended.append("finally")

    struck = preemptive.spawn(victim)
    preemptive.spawn(lambda: (dhaga.sleep(0.005), struck.cancel())).join()
    struck.join()
    assert ended == ["finally"]


def test_a_program_that_is_not_preempted_is_cancelled_at_parks_alone() -> None:
    def victim() -> str:
        for _ in range(200_000):
            pass
        return "whole"

    struck = dhaga.spawn(victim)
    dhaga.sleep(0)
    struck.cancel()
    assert struck.result() == "whole"


# ---- code that is not struck


def compute_for_long() -> None:
    for _ in range(600_000):
        pass


class Enters:
    def __enter__(self) -> None:
        compute_for_long()

    def __exit__(self, *error: object) -> None:
        pass


class Leaves(Enters):
    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        compute_for_long()


@contextlib.contextmanager
def generated() -> Iterator[None]:
    compute_for_long()
    yield
    compute_for_long()


def in_finally() -> None:
    try:
        len("")  # the compiler drops a block in which nothing can fail
    finally:
        compute_for_long()


def in_finally_after_an_error() -> None:
    with contextlib.suppress(KeyError):
        try:
            raise KeyError
        finally:
            compute_for_long()


def within(manager: Callable[[], Any]) -> Callable[[], None]:
    def use() -> None:
        with manager():
            pass

    return use


def in_a_closed_generator() -> None:
    def count() -> Generator[int]:
        try:
            yield 1
        except GeneratorExit:
            compute_for_long()

    generator = count()
    next(generator)
    generator.close()


def in_the_handler_of_a_cancel() -> None:
    try:
        raise dhaga.Cancelled("before")
    except dhaga.Cancelled:
        compute_for_long()


def below_c() -> None:
    calls = ctypes.CFUNCTYPE(None)(compute_for_long)
    calls()


class Dropped(io.BufferedIOBase):
    """A file like ``http.client.HTTPResponse``: its finalizer, in C, calls ``close`` and swallows the errors."""

    def close(self) -> None:
        if not self.closed:
            compute_for_long()
            super().close()


def in_the_close_of_a_file_that_is_dropped() -> None:
    Dropped()


def shielded() -> None:
    with dhaga.shield():
        compute_for_long()


def in_no_preempt() -> None:
    with dhaga.no_preempt():
        compute_for_long()


KEPT = [
    in_finally,
    in_finally_after_an_error,
    within(Enters),
    within(Leaves),
    within(generated),
    in_a_closed_generator,
    in_the_handler_of_a_cancel,
    below_c,
    in_the_close_of_a_file_that_is_dropped,
    shielded,
    in_no_preempt,
]


@needs_events
@pytest.mark.parametrize("keep", KEPT)
def test_code_that_tidies_up_or_makes_ready_is_not_struck(
    preemptive: dhaga.Scheduler, keep: Callable[[], None]
) -> None:
    """The strike comes after this code, in ``loop()``."""
    trace: list[str] = []

    def victim() -> None:
        try:
            with dhaga.Timeout(0.001):
                keep()
                trace.append("kept")
                loop()
        except TimeoutError:
            trace.append("struck")

    preemptive.spawn(victim).join()
    assert trace == ["kept", "struck"]


# ---- the lines of a function that are not struck


def sources() -> Iterator[tuple[str, ast.AST, CodeType]]:
    for module in (contextlib, functools, inspect, textwrap, sys.modules["threading"], sys.modules["subprocess"]):
        text = inspect.getsource(module)
        yield module.__name__, ast.parse(text), compile(text, module.__name__, "exec")


def codes_of(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_of(constant)


@pytest.mark.parametrize(("name", "tree", "code"), list(sources()))
def test_all_lines_of_finally_and_with_are_found_in_the_code(name: str, tree: ast.AST, code: CodeType) -> None:
    codes = list(codes_of(code))
    compiled = {line for each in codes for _, _, line in each.co_lines()}
    finals, withs = ({line for each in codes for line in deadline_strikes.lines_of(each)[kind]} for kind in (0, 1))
    statements = [each for each in ast.walk(tree) if isinstance(each, ast.Try) for each in each.finalbody]
    in_finally = {part.lineno for each in statements for part in ast.walk(each) if isinstance(part, ast.expr)}
    assert in_finally & compiled <= finals
    assert {each.lineno for each in ast.walk(tree) if isinstance(each, ast.With)} & compiled <= withs


def test_a_handler_of_errors_is_no_finally() -> None:
    def handle() -> None:
        try:
            loop()
        except (KeyError, ValueError):
            loop()
        except:  # noqa: E722
            loop()

    assert deadline_strikes.lines_of(handle.__code__) == (frozenset(), frozenset())


@needs_events
@pytest.mark.parametrize("seconds", [0.0, 0.01, 0.05])
def test_a_timer_of_the_loop_ends_a_turn_without_rivals(preemptive: dhaga.Scheduler, seconds: float) -> None:
    """Celery's time limits are such timers: they cancel the only dhaga that there is."""
    ended: list[str] = []

    def victim() -> None:
        me = dhaga.current()
        me.scheduler.loop.call_later(seconds, me.cancel)
        try:
            loop()
        finally:
            ended.append("finally")

    preemptive.spawn(victim).join()
    assert ended == ["finally"]
