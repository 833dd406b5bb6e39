"""Random trees of scopes, with errors, deadlines, cancels and shields: no orphan, no lost error, every ``finally`` run.

A program is a list of steps; each kind of step is a method of ``Run``, which notes what must hold on the way.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dhaga
from dhaga import Cancelled, Scope, fail_after, move_on_after, race, shield, testing
from dhaga.testing import virtual_clock

Step = tuple[Any, ...]
Steps = list[Step]

SECONDS = st.integers(0, 4)
DEPTH = st.integers(0, 3)


def programs(max_leaves: int = 25) -> st.SearchStrategy[Steps]:
    """Make lists of steps, nested at random."""
    leaves: st.SearchStrategy[Step] = st.one_of(
        st.tuples(st.just("nap"), SECONDS),
        st.tuples(st.just("swallow"), SECONDS),
        st.tuples(st.just("spoil"), SECONDS),
        st.just(("fail",)),
        st.tuples(st.just("cancel"), DEPTH),
        st.tuples(st.just("kick"), st.integers(0, 9)),
        st.tuples(st.just("ask"), st.integers(0, 9)),
    )

    def nested(steps: st.SearchStrategy[Step]) -> st.SearchStrategy[Step]:
        several = st.lists(steps, min_size=1, max_size=4)
        return st.one_of(
            st.tuples(st.just("spawn"), DEPTH, several),
            st.tuples(st.just("scope"), st.none() | SECONDS, st.booleans(), several),
            st.tuples(st.just("timeout"), SECONDS, several),
            st.tuples(st.just("shielded"), several),
            st.tuples(st.just("catch"), several),
            st.tuples(st.just("race"), st.lists(several, min_size=1, max_size=3)),
        )

    return st.lists(st.recursive(leaves, nested, max_leaves=max_leaves), min_size=1, max_size=5)


class Context:
    """Where a step runs: the scopes it knows, and the blocks of its own dhaga that it is in, None being a shield."""

    def __init__(self, known: tuple[Scope, ...], blocks: tuple[Scope | None, ...]) -> None:
        self.known = known
        self.blocks = blocks

    def within(self, scope: Scope) -> Context:
        return Context((*self.known, scope), (*self.blocks, scope))

    def shielded(self) -> Context:
        return Context(self.known, (*self.blocks, None))

    def open_blocks(self) -> list[Scope]:
        """Return the scopes whose cancel is to be raised here: those within the innermost shield."""
        found: list[Scope] = []
        for block in reversed(self.blocks):
            if block is None:
                break
            found.append(block)
        return found


class Run:
    """One run of a program: what it has raised and seen, begun and ended, and what was wrong."""

    def __init__(self, clock: testing.VirtualClock, patience: int) -> None:
        self.clock = clock
        self.patience = patience  # how long what is shielded may take, all together
        self.raised: list[BaseException] = []
        self.seen: list[BaseException] = []
        self.problems: list[str] = []
        self.handles: list[dhaga.Dhaga] = []
        self.children: dict[Scope, list[dhaga.Dhaga]] = {}
        self.kicked: set[dhaga.Dhaga] = set()
        self.open = 0

    def steps(self, steps: Steps, context: Context) -> None:
        self.open += 1
        try:
            for kind, *args in steps:
                getattr(self, kind)(*args, context)
        finally:
            self.open -= 1

    def nap(self, seconds: int, context: Context) -> None:
        doomed = any(scope.cancel_called for scope in context.open_blocks())
        try:
            dhaga.sleep(seconds)
        except Cancelled as error:
            self.judge(error, context)
            raise
        if doomed:
            self.problems.append("a park in a cancelled scope went well")

    def judge(self, error: Cancelled, context: Context) -> None:
        if error.scope is None:
            if dhaga.current() not in self.kicked:
                self.problems.append("a cancel that nobody asked for")
        elif error.scope not in context.open_blocks() or not error.scope.cancel_called:
            self.problems.append(f"a cancel of {error.scope}")

    def swallow(self, seconds: int, context: Context) -> None:
        try:
            self.nap(seconds, context)
        except Cancelled:
            pass

    def spoil(self, seconds: int, context: Context) -> None:
        """Fail if cancelled."""
        try:
            self.nap(seconds, context)
        except Cancelled:
            self.fail(context)

    def fail(self, context: Context) -> None:
        error = ValueError(len(self.raised))
        self.raised.append(error)
        raise error

    def cancel(self, depth: int, context: Context) -> None:
        context.known[-1 - depth % len(context.known)].cancel()

    def kick(self, number: int, context: Context) -> None:
        if self.handles:
            victim = self.handles[number % len(self.handles)]
            self.kicked.add(victim)
            victim.cancel("kicked")

    def ask(self, number: int, context: Context) -> None:
        """Ask for the result of another, for a moment: its error then comes here, too."""
        other = self.handles[number % len(self.handles)] if self.handles else None
        if other is None or other is dhaga.current():
            return
        try:
            other.result(1)
        except (ValueError, TimeoutError, ExceptionGroup, Cancelled) as error:
            if error is not other._error and not isinstance(error, TimeoutError):
                raise  # it is for the one who asks

    def spawn(self, depth: int, steps: Steps, context: Context) -> None:
        at = len(context.known) - 1 - depth % len(context.known)
        scope = context.known[at]
        handle = scope.spawn(self.steps, steps, Context(context.known[: at + 1], (scope,)))
        self.handles.append(handle)
        self.children[scope].append(handle)

    def scope(self, seconds: int | None, moves_on: bool, steps: Steps, context: Context) -> None:
        scope = (move_on_after if moves_on else fail_after)(seconds)
        self.children[scope] = []
        began = self.clock()
        outcome: BaseException | None = None
        try:
            with scope:
                self.steps(steps, context.within(scope))
        except BaseException as error:
            outcome = error
            raise
        finally:
            self.check_end(scope, outcome, began)

    def check_end(self, scope: Scope, outcome: BaseException | None, began: float) -> None:
        """Check what must hold when a block is left, whichever way."""
        if not all(child.has_ended for child in self.children[scope]):
            self.problems.append("an orphan")
        if isinstance(outcome, Cancelled) and outcome.scope is scope:
            self.problems.append("a cancel left its own scope")
        if scope.expired and scope.timeout is not None and self.clock() > began + scope.timeout + self.patience:
            self.problems.append("a deadline was missed")
        new = [
            e for e in leaves(outcome) if isinstance(e, TimeoutError) and not any(e is known for known in self.raised)
        ]
        if new and not (scope.expired and scope.cancelled_caught):
            self.problems.append("a timeout that has not come")
        self.raised += new

    def timeout(self, seconds: int, steps: Steps, context: Context) -> None:
        block = dhaga.Timeout(seconds)
        try:
            with block:
                self.steps(steps, context)
        except TimeoutError as error:
            if not any(error is known for known in self.raised):
                self.raised.append(error)
                if not block.expired:
                    self.problems.append("a Timeout that has not come")
            raise

    def shielded(self, steps: Steps, context: Context) -> None:
        with shield():
            self.steps(steps, context.shielded())

    def catch(self, steps: Steps, context: Context) -> None:
        try:
            self.steps(steps, context)
        except Exception as error:
            self.seen += leaves(error)

    def race(self, runners: list[Steps], context: Context) -> None:
        """Race. What fails on the way to a success is dropped, so that each runner sees to its own errors."""
        try:
            race(*[functools.partial(self.runs, steps) for steps in runners])
        except Cancelled as error:
            self.judge(error, context)
            raise

    def runs(self, steps: Steps) -> None:
        me: Any = dhaga.current()
        self.catch([("scope", 5, True, steps)], Context((), (me._scope,)))


def leaves(error: BaseException | None) -> list[BaseException]:
    """Return the errors in a group of groups."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for each in error.exceptions for leaf in leaves(each)]
    return [] if error is None else [error]


def naps(steps: Any) -> Iterator[int]:
    """Find how long all that is in a program sleeps."""
    if isinstance(steps, tuple) and steps[:1] in (("nap",), ("swallow",), ("spoil",)):
        yield steps[1]
    elif isinstance(steps, (tuple, list)):
        for each in steps:
            yield from naps(each)


def run_of(program: Steps, in_dhaga: bool) -> Run:
    """Run a program on the virtual clock, all in a scope."""
    with virtual_clock() as clock:
        run = Run(clock, sum(naps(program)))

        def block() -> None:
            run.catch([("scope", None, False, program)], Context((), ()))

        dhaga.spawn(block).result() if in_dhaga else block()
    return run


@pytest.mark.crowd
@settings(max_examples=120, deadline=None)
@given(program=programs(), seed=st.none() | st.integers(0, 1000), in_dhaga=st.booleans())
def test_trees_of_scopes_leave_no_orphan_lose_no_error_and_run_every_finally(
    program: Steps, seed: int | None, in_dhaga: bool
) -> None:
    former, testing.seed = testing.seed, seed
    try:
        run = run_of(program, in_dhaga)
    finally:
        testing.seed = former
    assert not run.problems
    assert run.open == 0, "a finally has not run"
    assert Counter(map(id, run.seen)) == Counter(map(id, run.raised)), "an error was lost, or came twice"
