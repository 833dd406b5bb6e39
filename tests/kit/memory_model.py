"""Every outcome that C11's memory order allows for a few threads: relaxed, acquire, release, seq_cst fences, locks.

A thread is a generator function without arguments. It yields a ``Step``, and is sent the value that a load found. It
returns its result. For each state, it is run again from its first step, so it must not keep data elsewhere.

The model is operational and has views: a place has a list of messages in modification order, and a thread may read any
message that is not older than the thread's view of the place. A release attaches the view to the message, and an
acquire adopts the view. A store may come before messages that its thread has not seen. So the writes and reads of a
thread may take effect in another order than the program's, as on ARM. Left out: a read that takes effect after a later
write of its own thread ("load buffering"). So the model does not notice if an order against such reads is missing. A
race on a place that is not atomic is found by the lack of an order, whichever access comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, NamedTuple

ACQUIRES, RELEASES = {"acquire", "acq_rel", "seq_cst"}, {"release", "acq_rel", "seq_cst"}


class Step(NamedTuple):
    """The next action of a thread. Its ``kind``:

    - load, store, exchange, fence, lock, unlock;
    - ``await``, a load in a loop that ends at ``value``;
    - ``fence all``, a fence of all threads (membarrier);
    - ``use``, an access that is not atomic: a race if another access is not ordered before it;
    - ``renew``, which frees a lock with such an access.
    """

    kind: str
    place: str = ""
    value: Any = None
    order: str = "relaxed"


Program = Callable[[], Generator[Step, Any, Any]]
View = tuple[int, ...]


class Message(NamedTuple):
    value: Any
    view: View
    follows: bool = False
    """Whether an exchange made the message, which then stays next to the message that the exchange has read."""


class Thread(NamedTuple):
    """The values that a thread was sent, and its views: now, at its next acquire fence, at its last release fence."""

    sent: tuple[Any, ...]
    now: View
    acquired: View
    released: View


class State(NamedTuple):
    places: tuple[tuple[Message, ...], ...]
    threads: tuple[Thread, ...]
    fences: View
    locks: tuple[tuple[int, View], ...]
    """For each place that is a lock: its holder, or -1, and the view of its last holder."""


class Found(NamedTuple):
    """``results``: the threads' results, for each way to the end. ``broken``: races, and waits without an end."""

    results: set[tuple[Any, ...]]
    broken: set[str]
    states: int


def later(one: View, other: View) -> View:
    return tuple(map(max, one, other))


def moved(view: View, at: int, slot: int) -> View:
    return (*view[:at], view[at] + 1, *view[at + 1 :]) if view[at] >= slot else view


class Model:
    def __init__(self, programs: list[Program], start: Mapping[str, Any]) -> None:
        self.programs = programs
        self.places = {name: number for number, name in enumerate(start)}
        self.start = start
        self.following: dict[tuple[int, tuple[Any, ...]], tuple[Step | None, Any]] = {}
        self.broken: set[str] = set()

    def explore(self) -> Found:
        """Visit each state that can be reached, until one is broken."""
        zero = (0,) * len(self.places)
        first = State(
            tuple((Message(value, zero),) for value in self.start.values()),
            tuple(Thread((), zero, zero, zero) for _ in self.programs),
            zero,
            tuple((-1, zero) for _ in self.places),
        )
        seen, left, results = {first}, [first], set()
        while left and not self.broken:
            state = left.pop()
            nexts = [self.next_of(number, thread.sent) for number, thread in enumerate(state.threads)]
            moves = [move for number, (step, _) in enumerate(nexts) if step for move in self.moves(state, number, step)]
            if all(step is None for step, _ in nexts):
                results.add(tuple(result for _, result in nexts))
            elif not moves:
                self.broken.add(f"nothing goes on: {[step for step, _ in nexts]}")
            for state in moves:
                if state not in seen:
                    seen.add(state)
                    left.append(state)
        return Found(results, self.broken, len(seen))

    def next_of(self, number: int, sent: tuple[Any, ...]) -> tuple[Step | None, Any]:
        """Return the step of a thread that was sent these values; at the thread's end, return None and the result."""
        key = number, sent
        if key not in self.following:
            running = self.programs[number]()
            try:
                step = next(running)
                for answer in sent:
                    step = running.send(answer)
                self.following[key] = step, None
            except StopIteration as end:
                self.following[key] = None, end.value
        return self.following[key]

    def moves(self, state: State, number: int, step: Step) -> list[State]:
        """Return the states that may follow this step; no state while the step waits."""
        me = state.threads[number]
        at = self.places.get(step.place, -1)
        if step.kind in ("load", "await"):
            return [
                self.read(state, number, step, at, index)
                for index in range(me.now[at], len(state.places[at]))
                if step.kind == "load" or state.places[at][index].value == step.value
            ]
        if step.kind == "store":
            found = state.places[at]
            slots = range(me.now[at] + 1, len(found) + 1)
            free = [slot for slot in slots if slot == len(found) or not found[slot].follows]
            return [self.write(state, number, step, at, slot) for slot in free]
        if step.kind == "exchange":
            found = state.places[at]
            last = [n for n in range(me.now[at], len(found)) if n + 1 == len(found) or not found[n + 1].follows]
            return [
                self.write(self.read(state, number, step, at, index), number, step, at, index + 1, found[index].view)
                for index in last
            ]
        if step.kind == "lock" and state.locks[at][0] != -1:
            return []
        return [getattr(self, step.kind.replace(" ", "_"))(state, number, step, at)]

    # ---- the effects of a step

    def with_thread(self, state: State, number: int, thread: Thread) -> State:
        return state._replace(threads=(*state.threads[:number], thread, *state.threads[number + 1 :]))

    def sent(self, state: State, number: int, answer: Any = None) -> State:
        me = state.threads[number]
        return self.with_thread(state, number, me._replace(sent=(*me.sent, answer)))

    def read(self, state: State, number: int, step: Step, at: int, index: int) -> State:
        me, message = state.threads[number], state.places[at][index]
        here = (*me.now[:at], index, *me.now[at + 1 :])
        now = later(here, message.view) if step.order in ACQUIRES else here
        me = me._replace(now=now, acquired=later(later(me.acquired, here), message.view))
        return self.sent(self.with_thread(state, number, me), number, message.value)

    def write(self, state: State, number: int, step: Step, at: int, slot: int, read: View | None = None) -> State:
        if slot < len(state.places[at]):
            state, read = self.with_room(state, at, slot), read and moved(read, at, slot)
        me = state.threads[number]
        here = (*me.now[:at], slot, *me.now[at + 1 :])
        own = (*me.released[:at], slot, *me.released[at + 1 :])
        view = here if step.order in RELEASES else own
        if read is not None:
            view = later(view, read)
        messages = state.places[at]
        messages = (*messages[:slot], Message(step.value, view, read is not None), *messages[slot:])
        state = state._replace(places=(*state.places[:at], messages, *state.places[at + 1 :]))
        state = self.with_thread(state, number, me._replace(now=here, acquired=later(me.acquired, here)))
        return state if read is not None else self.sent(state, number)

    def with_room(self, state: State, at: int, slot: int) -> State:
        """Return the state with room for a message in ``slot``: the messages from there on move."""
        return State(
            tuple(
                tuple(each._replace(view=moved(each.view, at, slot)) for each in messages) for messages in state.places
            ),
            tuple(
                Thread(each.sent, *(moved(view, at, slot) for view in (each.now, each.acquired, each.released)))
                for each in state.threads
            ),
            moved(state.fences, at, slot),
            tuple((holder, moved(view, at, slot)) for holder, view in state.locks),
        )

    def fence(self, state: State, number: int, step: Step, at: int) -> State:
        me = state.threads[number]
        now = later(me.now, me.acquired) if step.order in ACQUIRES else me.now
        if step.order == "seq_cst":
            now = later(now, state.fences)
            state = state._replace(fences=now)
        released = now if step.order in RELEASES else me.released
        return self.sent(self.with_thread(state, number, Thread(me.sent, now, me.acquired, released)), number)

    def fence_all(self, state: State, number: int, step: Step, at: int) -> State:
        sent = [each.sent for each in state.threads]
        for each in (number, *range(len(sent)), number):
            state = self.fence(state, each, Step("fence", order="seq_cst"), -1)
        threads = tuple(each._replace(sent=before) for each, before in zip(state.threads, sent, strict=True))
        return self.sent(state._replace(threads=threads), number)

    def lock(self, state: State, number: int, step: Step, at: int) -> State:
        """Acquire a lock. The place is also the memory of the lock, which ``renew`` writes."""
        if state.threads[number].now[at] < len(state.places[at]) - 1:
            self.broken.add(f"race on {step.place}")
        me, seen = state.threads[number], state.locks[at][1]
        me = me._replace(now=later(me.now, seen), acquired=later(me.acquired, seen))
        return self.sent(self.with_locks(self.with_thread(state, number, me), at, number, seen), number)

    def unlock(self, state: State, number: int, step: Step, at: int) -> State:
        return self.sent(self.with_locks(state, at, -1, state.threads[number].now), number)

    def with_locks(self, state: State, at: int, holder: int, view: View) -> State:
        return state._replace(locks=(*state.locks[:at], (holder, view), *state.locks[at + 1 :]))

    def use(self, state: State, number: int, step: Step, at: int) -> State:
        """Access a place that is not atomic. Reads count as writes: no two threads of these protocols only read."""
        if state.threads[number].now[at] < len(state.places[at]) - 1:
            self.broken.add(f"race on {step.place}")
        return self.write(state, number, step, at, len(state.places[at]))

    def renew(self, state: State, number: int, step: Step, at: int) -> State:
        state = self.use(state, number, step, at)
        return self.with_locks(state, at, -1, state.threads[number].now)
