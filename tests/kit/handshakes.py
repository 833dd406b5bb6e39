"""The hand-shakes between OS threads that rely on the memory order of C, as programs of the memory model.

Each function takes ``Steps`` and returns a hand-shake: the threads, their initial memory, and the forbidden results.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from tests.kit.atomic_steps import Steps
from tests.kit.memory_model import Found, Model, Program, Step

Run = Generator[Step, Any, Any]

CANDIDATE, REVOKED = 1, 2
ONE, OTHER, SURVIVOR, GONE = 4, 8, 12, 16
"""Threads, as a guard stores them."""


class Handshake(NamedTuple):
    threads: list[Program]
    memory: dict[str, Any]
    wrong: tuple[Any, ...] | None = None
    """The results that must not occur, such as a lost wake. A race, or a wait without an end, is always wrong."""

    def explore(self) -> tuple[Found, bool]:
        """Return what the model found, and whether the hand-shake is correct."""
        found = Model(self.threads, self.memory).explore()
        return found, not found.broken and self.wrong not in found.results


def use(place: str) -> Step:
    return Step("use", place)


# ---- a guard


class Guard:
    """guard.h as a thread runs it. ``STREAK`` is 1 here: the second acquisition in a row is by the bias."""

    def __init__(self, step: Steps, me: int, epoch: int = 0, survivor: int = 0) -> None:
        self.step, self.me, self.epoch, self.survivor = step, me, epoch, survivor
        self.depth = 0

    def acquire(self) -> Run:
        """acquire_guard()"""
        step, me = self.step, self.me
        if (yield step("is of this epoch")) == self.epoch and (yield step("is biased")) == me:
            busy = yield step("busy before")
            yield step("busy up", busy + 1)
            if busy > 0 or (yield step("is still biased")) == me:
                return
            yield step("step back", 0)
        yield from self.acquire_mutex()

    def acquire_mutex(self) -> Run:
        step, me = self.step, self.me
        if (yield step("epoch")) != self.epoch:
            yield from self.renew()
        if (yield step("owned already")) == me:
            self.depth += 1
            return
        if ((yield step("bias within")) & ~REVOKED) == me and (busy := (yield step("busy within"))) > 0:
            yield step("busy again", busy + 1)
            return
        yield step("mutex")
        yield step("owned", me)
        self.depth = 1
        bias = yield step("bias found")
        if bias and not bias & (CANDIDATE | REVOKED):
            yield step("revoked", (yield step("bias to revoke")) | REVOKED)
            yield step("fence all")
            if (yield step("idle")) != 0:
                yield step.until("idle at last", 0)
        elif not bias & REVOKED and bias != me | CANDIDATE:
            yield step("candidate", me | CANDIDATE)

    def release(self) -> Run:
        """release_guard()"""
        step, me = self.step, self.me
        if (yield step("is owner")) != me:
            yield step("busy down", (yield step("busy held")) - 1)
            return
        self.depth -= 1
        if self.depth == 0:
            if (yield step("is candidate")) == me | CANDIDATE:
                yield step("biased", me)
            yield step("disowned", 0)
            yield step.unlock("mutex")

    def renew(self) -> Run:
        step = self.step
        yield step("renewing")
        if (yield step("renewed already")) != self.epoch:
            if (yield step("owner at fork")) != self.survivor:
                yield step("mutex renewed")
                yield step("owner renewed", 0)
            if ((yield step("bias at fork")) & ~REVOKED) != self.survivor:
                yield step("bias renewed", 0)
                yield step("busy renewed", 0)
            yield step("epoch renewed", self.epoch)
        yield step.unlock("renewing")

    def hold(self, inner: bool = False) -> Run:
        """Hold the guard for a step. ``inner``: whether a finalizer acquires the guard again in this step."""
        yield from self.acquire()
        if inner:
            yield from self.hold()
        else:
            yield use("content")
        yield from self.release()


FRESH = {"epoch": 0, "bias": 0, "busy": 0, "owner": 0, "mutex": 0, "renewing": 0, "content": 0}


def holds(guard: Guard, *inner: bool) -> Program:
    """Return a thread that holds a guard once for each value of ``inner``."""

    def run() -> Run:
        for each in inner:
            yield from guard.hold(each)

    return run


def first_bias(step: Steps) -> Handshake:
    """A guard is biased to the thread that acquires it twice in a row. Another thread revokes the bias."""
    return Handshake([holds(Guard(step, ONE), False, False), holds(Guard(step, OTHER), False)], FRESH)


def revocation(step: Steps) -> Handshake:
    """The biased thread is in a step, or just before one."""
    return Handshake([holds(Guard(step, ONE), True, False), holds(Guard(step, OTHER), False)], {**FRESH, "bias": ONE})


def bias_in_a_child(step: Steps) -> Handshake:
    """At a fork, a thread was in a step by the bias. A new thread of the child has the identity of this thread."""
    one, other = Guard(step, ONE, 1, SURVIVOR), Guard(step, OTHER, 1, SURVIVOR)
    return Handshake([holds(one, False), holds(other, False, False)], {**FRESH, "bias": ONE, "busy": 1})


def mutex_in_a_child(step: Steps) -> Handshake:
    """At a fork a thread held the mutex, and is gone in the child."""
    one, other = Guard(step, ONE, 1, SURVIVOR), Guard(step, OTHER, 1, SURVIVOR)
    return Handshake([holds(one, False), holds(other, False)], {**FRESH, "owner": GONE, "bias": GONE | CANDIDATE})


def survivor_in_a_child(step: Steps) -> Handshake:
    """The thread that forks is in a step by the bias, and goes on with it in the child."""
    one, other = Guard(step, ONE, 1, ONE), Guard(step, OTHER, 1, ONE)

    def goes_on() -> Run:
        yield use("content")
        yield from one.release()
        yield from one.hold()

    return Handshake([goes_on, holds(other, False)], {**FRESH, "bias": ONE, "busy": 1})


# ---- reads without a lock


def room_that_is_kept(step: Steps) -> Handshake:
    """Two threads receive into the room (the memory) that the process keeps. It is for one thread at a time."""

    def receives(*rooms: str) -> Program:
        def run() -> Run:
            for new in rooms:
                room = (yield step("room taken")) or new
                yield use(room)
                kept = yield step("room kept", room)
                if kept is not None:
                    yield use(kept)  # it is freed

        return run

    return Handshake([receives("a", "b"), receives("c", "d")], {"kept": None, **dict.fromkeys("abcd", 0)})


def pairs(one: Callable[[], Run], other: Callable[[], Run], **memory: Any) -> Handshake:
    """Return a hand-shake in which each thread changes something and then looks for the other's change."""
    return Handshake([one, other], {name.replace("_", " "): value for name, value in memory.items()}, (False, False))


def wake_and_sleep(step: Steps) -> Handshake:
    def wakes() -> Run:
        yield use("value")
        yield step("appended")
        yield Step("store", "run queue size", 1)
        yield step.unlock("appended")
        yield step("fence of wake")
        return (yield step("asleep seen")) != 0

    def sleeps() -> Run:
        yield step("asleep", 1)
        yield step("fence of sleep")
        yield step.unlock("fence of sleep")
        if not (yield step("runnable")):
            return False
        yield Step("lock", "run queue")
        yield use("value")
        return True

    return pairs(wakes, sleeps, value=0, asleep=0, run_queue=0, run_queue_size=0)


def join_and_end(step: Steps) -> Handshake:
    def joins() -> Run:
        yield step("joiner appended")
        yield Step("store", "size", 1)
        yield step.unlock("joiner appended")
        yield step("fence of join")
        return (yield step("done seen")) != 0

    def ends() -> Run:
        yield step("done", 1)
        yield step("fence of end")
        yield step("joiners read")
        size = yield Step("load", "size")
        yield step.unlock("joiners read")
        return size != 0

    return pairs(joins, ends, done=0, joiners=0, size=0)


def room_in_a_queue(step: Steps) -> Handshake:
    def gets() -> Run:
        yield step("item taken")
        yield Step("store", "stock size", 0)
        yield step.unlock("item taken")
        yield step("fence of get")
        return (yield step("putters seen")) != 0

    def puts() -> Run:
        yield step("putter appended")
        yield Step("store", "putters size", 1)
        yield step.unlock("putter appended")
        yield step("fence of put")
        yield step.unlock("fence of put")
        return (yield step("room seen")) == 0

    return pairs(gets, puts, stock=0, stock_size=1, putters=0, putters_size=0)


def read_and_close(step: Steps) -> Handshake:
    def reads() -> Run:
        yield step("reader added")
        yield Step("store", "size", 1)
        yield step.unlock("reader added")
        yield step("fence of read")
        return (yield step("watched seen")) == 0

    def closes() -> Run:
        yield step("unwatched", 0)
        yield step("readers read")
        size = yield Step("load", "size")
        yield step.unlock("readers read")
        return size != 0

    return pairs(reads, closes, watched=1, readers=0, size=0)


# ---- what a fork copies: the child reads after all that the fork has seen, in any order


def copied(*places: str) -> Run:
    found = []
    for place in places:
        found.append((yield Step("load", place)))
        yield Step("fence", order="acquire")
    return tuple(found)


def kept_chunk(step: Steps) -> Handshake:
    def frees() -> Run:
        yield step("chunk linked", "rest")
        yield step("fence of chunk")
        yield step("chunk listed", "chunk")

    return Handshake(
        [frees, lambda: copied("list", "next")], {"list": "rest", "next": "dead"}, (None, ("chunk", "dead"))
    )


def page_that_is_freed(step: Steps) -> Handshake:
    def takes() -> Run:
        yield step("page out", "rest")
        yield step("fence of page")
        yield step("page freed", "freed")

    return Handshake(
        [takes, lambda: copied("page", "pages")], {"page": "whole", "pages": "page"}, (None, ("freed", "page"))
    )


def address_in_a_page(step: Steps) -> Handshake:
    def empties() -> Run:
        yield step("address", "chunk")
        yield step("fence of address")
        yield step("counted", 1)
        yield step("fence of count")
        yield step("page in", "page")

    def copy() -> Run:
        page, count, address = yield from copied("pages", "count", "address")
        return (page == "page" and count == 0) or (count == 1 and address == "none")

    return Handshake([empties, copy], {"pages": "rest", "count": 0, "address": "none"}, (None, True))


HANDSHAKES = [
    first_bias,
    revocation,
    bias_in_a_child,
    mutex_in_a_child,
    survivor_in_a_child,
    room_that_is_kept,
    wake_and_sleep,
    join_and_end,
    room_in_a_queue,
    read_and_close,
    kept_chunk,
    page_that_is_freed,
    address_in_a_page,
]
