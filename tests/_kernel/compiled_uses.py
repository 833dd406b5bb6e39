"""Uses of each compiled function: a call, and what its objects hold afterwards, for checks that strike in the middle.

A dhaga or main code prepares a use, makes its call once, and asks for its state, which also uses the objects again.
Nothing may be lost or be held for ever, no matter what has struck.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import dhaga
from dhaga import queue, socket, ssl, threading
from dhaga._kernel.run.loop import has_event
from dhaga._kernel.run.microthread import Dhaga
from dhaga._kernel.run.run_queues import NORMAL
from dhaga._kernel.run.timers import Timers
from dhaga._kernel.wait.wait_queue import WaitQueue
from dhaga.http._server.connection import ServerConnection
from dhaga.http._server.response import Response
from dhaga.http.wsgi import Server

Use = tuple[Callable[[], object], Callable[[], object]]
"""The call, and a function that returns what its objects hold."""

NOT_STRUCK: Callable[[], None] = lambda: None  # noqa: E731 - replaced by the check
PATIENCE = 20


class Partner:
    """A dhaga that does something at once, and the rest while the caller of the use is parked."""

    stop_striking: Callable[[], None] = staticmethod(NOT_STRUCK)

    def __init__(self, rest: Callable[[], object], first: Callable[[], object] = NOT_STRUCK) -> None:
        self.first, self.rest = first, rest
        self.dhaga = dhaga.spawn(self.run)
        dhaga.sleep(0)

    def run(self) -> None:
        self.first()
        try:
            dhaga.park("partner")
        except MemoryError:  # at the park's return: the wake came
            self.stop_striking()
        self.again_without(self.rest)
        # This yield lets the caller go on before the end of this dhaga, which goes through the hub.
        self.again_without(partial(dhaga.sleep, 0))

    def again_without(self, step: Callable[[], object]) -> None:
        try:
            step()
        except MemoryError:
            self.stop_striking()
            step()

    def go(self) -> None:
        self.dhaga.wake()

    def end(self) -> None:
        self.dhaga.join(PATIENCE)
        assert not self.dhaga.is_alive()


def stop_striking() -> None:
    Partner.stop_striking()


def held(lock: Any) -> Partner:
    partner = Partner(lock.release, lock.acquire)
    partner.go()
    return partner


def taken(lock: Any, *partners: Partner) -> list[object]:
    """Return whether the lock is held, and how many of two dhagas take it once it has been released."""
    for each in partners:
        each.end()
    mine = lock.locked()
    while lock.locked():
        lock.release()
    return [mine, contended(lock)]


def contended(lock: Any) -> int:
    turns = []

    def take() -> None:
        with lock:
            dhaga.sleep(0)
            turns.append(1)

    other = dhaga.spawn(take)
    take()
    other.join(PATIENCE)
    return len(turns)


def permits(semaphore: Any, *partners: Partner) -> list[object]:
    for each in partners:
        each.end()
    return [semaphore._value, contended(semaphore) if semaphore._value else None, semaphore._value]


def waiter_of(wait: Callable[[], object]) -> Any:
    """Return a dhaga that waits."""
    waiting: Any = dhaga.spawn(wait)
    dhaga.sleep(0)
    return waiting


def result_of(waiting: Any, serve: Callable[[], object]) -> object:
    """Return whether a waiter has been served, and its result. If it has not, ``serve`` serves it."""
    dhaga.sleep(0)
    served = not waiting.is_alive()
    if not served:
        serve()
    return [served, waiting.result(PATIENCE)]


def of_lock(new: Callable[[], Any]) -> dict[str, Callable[[], Use]]:
    def free(name: str) -> Use:
        lock = new()
        return getattr(lock, name), lambda: taken(lock)

    def again(name: str) -> Use:
        lock = new()
        lock.acquire()
        return getattr(lock, name), lambda: taken(lock)

    def busy(name: str, *args: object, **kwargs: object) -> Use:
        lock = new()
        partner = held(lock)
        return partial(getattr(lock, name), *args, **kwargs), lambda: taken(lock, partner)

    def hand_over() -> Use:
        lock = new()
        lock.acquire()
        waiting = waiter_of(partial(contended_once, lock))
        return lock.release, lambda: result_of(waiting, lock.release)

    def contended_once(lock: Any) -> object:
        with lock:
            return "got it"

    def abandoned() -> Use:
        lock = new()
        lock.acquire()
        waiter_of(lambda: lock.acquire(timeout=1e-6)).join(PATIENCE)
        return lock.release, lambda: taken(lock)

    named = type(new()).__name__
    uses: dict[str, Callable[[], Use]] = {
        f"{named}.acquire free": partial(free, "acquire"),
        f"{named}.__enter__ free": partial(free, "__enter__"),
        f"{named}.acquire held": partial(busy, "acquire"),
        f"{named}.acquire held, in time": partial(busy, "acquire", timeout=10.0),
        f"{named}.__enter__ held": partial(busy, "__enter__"),
        f"{named}.release": partial(again, "release"),
        f"{named}.release handed over": hand_over,
        f"{named}.release abandoned": abandoned,
    }
    if named == "RLock":
        return uses | {f"{named}.acquire again": partial(again, "acquire")}
    return uses | {
        "OwnedLock._wait_for_hand_over": partial(busy, "_wait_for_hand_over", None),
    }


def of_semaphore(new: Callable[[int], Any]) -> dict[str, Callable[[], Use]]:
    def some(name: str, *args: object) -> Use:
        few = new(3)
        few.acquire()
        return partial(getattr(few, name), *args), lambda: permits(few)

    def none(name: str, **kwargs: object) -> Use:
        few = new(1)
        few.acquire()
        partner = Partner(few.release)
        partner.go()
        return partial(getattr(few, name), **kwargs), lambda: permits(few, partner)

    def hand_over() -> Use:
        few = new(1)
        few.acquire()
        waiting = waiter_of(few.acquire)
        return few.release, lambda: [result_of(waiting, few.release), few._value]

    named = type(new(1)).__name__
    uses: dict[str, Callable[[], Use]] = {
        f"{named}.release": partial(some, "release"),
        f"{named}.release handed over": hand_over,
    }
    return uses | {
        "Semaphore.acquire free": partial(some, "acquire"),
        "Semaphore.__enter__ free": partial(some, "__enter__"),
        "Semaphore.__exit__": partial(some, "__exit__", None, None, None),
        "Semaphore.acquire none": partial(none, "acquire"),
        "Semaphore.acquire none, in time": partial(none, "acquire", timeout=10.0),
        "Semaphore.__enter__ none": partial(none, "__enter__"),
    }


def of_event() -> dict[str, Callable[[], Use]]:
    def state(event: Any, *others: Any) -> object:
        was_set = event.is_set()
        event.set()
        for each in others:
            each.join(PATIENCE)
        assert not any(each.is_alive() for each in others)
        event.clear()
        later = waiter_of(event.wait)
        event.set()
        return [was_set, later.result(PATIENCE)]

    def is_set(name: str) -> Use:
        event = threading.Event()
        event.set()
        return getattr(event, name), lambda: state(event)

    def sets(count: int) -> Use:
        event = threading.Event()
        others = [waiter_of(event.wait) for _ in range(count)]
        return event.set, lambda: state(event, *others)

    def waits(**kwargs: object) -> Use:
        event = threading.Event()
        partner = Partner(event.set)
        partner.go()
        return partial(event.wait, **kwargs), lambda: state(event, partner.dhaga)

    return {
        "Event.set": partial(sets, 0),
        "Event.set with waiters": partial(sets, 3),
        "Event.wait set": partial(is_set, "wait"),
        "Event.wait": waits,
        "Event.wait in time": partial(waits, timeout=10.0),
    }


def of_queue(new: Callable[[], Any]) -> dict[str, Callable[[], Use]]:
    def state(items: Any, *partners: Partner) -> object:
        for each in partners:
            each.end()
        held = items.qsize()
        getter = waiter_of(lambda: [items.get() for _ in range(held + 1)])
        items.put("last")
        return [held, getter.result(PATIENCE)[-1], getattr(items, "unfinished_tasks", None)]

    def puts(maxsize: int = 0) -> Use:
        items = queue.Queue(maxsize) if maxsize else new()
        for _ in range(1 if maxsize else 64):
            items.put("first")
        return partial(items.put, "item"), lambda: state(items)

    def gives() -> Use:
        items = new()
        getter = waiter_of(items.get)
        return partial(items.put, "item"), lambda: [result_of(getter, partial(items.put, "item")), state(items)]

    def gets() -> Use:
        items = new()
        items.put("item")
        return items.get, lambda: state(items)

    def waits(**kwargs: object) -> Use:
        items = new()
        partner = Partner(partial(items.put, "item"))
        partner.go()
        return partial(items.get, **kwargs), lambda: state(items, partner)

    def makes_room() -> Use:
        items: Any = queue.Queue(1)
        items.put("item")
        putter = waiter_of(partial(items.put, "other"))

        def rest() -> list[object]:
            got = []
            while items.qsize() or putter.is_alive():
                got.append(items.get(timeout=PATIENCE))
                dhaga.sleep(0)
            return got

        return items.get, rest

    named = type(new()).__name__
    uses: dict[str, Callable[[], Use]] = {
        f"{named}.put": puts,
        f"{named}.put to a getter": gives,
        f"{named}.get": gets,
        f"{named}.get waits": waits,
        f"{named}.get waits in time": partial(waits, timeout=10.0),
    }
    return (
        uses if named == "SimpleQueue" else uses | {"Queue.put limited": partial(puts, 2), "Queue.get full": makes_room}
    )


def of_caller() -> dict[str, Callable[[], Use]]:
    def identifies() -> Use:
        return threading.get_ident, lambda: threading.get_ident() > 0

    def reads() -> Use:
        mine = threading.local()
        mine.name = "value"
        return partial(mine.__getattribute__, "name"), lambda: [mine.name, hasattr(mine, "other")]

    return {"get_ident": identifies, "local.__getattribute__": reads}


def of_wait_queue() -> dict[str, Callable[[], Use]]:
    def waits(**kwargs: object) -> Use:
        queue_of_all = WaitQueue(Expiring, "test")
        partner = Partner(lambda: queue_of_all.wake_first("value"))
        partner.go()

        def left() -> object:
            partner.end()
            return [len(queue_of_all), dhaga.sleep(0)]

        return partial(queue_of_all.wait, False, NOT_STRUCK, **kwargs), left

    def wakes() -> Use:
        queue_of_all = WaitQueue(Expiring, "test")
        waiting = waiter_of(lambda: queue_of_all.wait(False, NOT_STRUCK))
        return (
            lambda: queue_of_all.wake_first("value"),
            lambda: result_of(waiting, lambda: queue_of_all.wake_first("value")),
        )

    return {
        "WaitQueue.wait": waits,
        "WaitQueue.wait in time": partial(waits, timeout=10.0),
        "WaitQueue.wake_first": wakes,
    }


def new_dhaga(fn: Callable[[], object]) -> Any:
    """Return a dhaga that no scheduler has yet."""
    made: Any = Dhaga.__new__(Dhaga)
    set_up(made, fn)
    return made


def set_up(made: Any, fn: Callable[[], object]) -> None:
    made.set_up_dhaga(scheduler(), fn, (), None, "made", False, None, NORMAL)


def scheduler() -> Any:
    me: Any = dhaga.current()
    return me.scheduler


def of_kernel() -> dict[str, Callable[[], Use]]:
    def sleeps(*seconds: float) -> Use:
        partner = Partner(stop_striking if any(seconds) else NOT_STRUCK)  # the hub must not be struck
        partner.go()
        return partial(dhaga.sleep, *seconds), lambda: [partner.end(), dhaga.sleep(1e-6)]

    def parks(name: str, *args: object) -> Use:
        me: Any = dhaga.current()
        owner: Any = me if hasattr(me, name) and name != "_park" else me.scheduler
        me.prepare_park("test")
        ticket, me.parked = me.parked, []
        partner = Partner(lambda: me.wake_from(ticket, "value"))
        partner.go()
        me.parked = ticket
        return partial(getattr(owner, name), *(args or (me,))), lambda: [ticket.clear(), partner.end()]

    def prepares() -> Use:
        me: Any = dhaga.current()
        return partial(me.prepare_park, "test"), lambda: [len(me.parked), me.parked.clear(), dhaga.sleep(0)]

    def wakes(name: str) -> Use:
        waiting = waiter_of(partial(dhaga.park, "test"))
        if name == "deliver_wake":
            waiting.parked.clear()
        return partial(getattr(waiting, name), "value"), lambda: result_of(
            waiting, lambda: getattr(waiting, name)("value")
        )

    def expires() -> Use:
        waiting = waiter_of(partial(dhaga.sleep, 1000))
        return waiting._expire, lambda: result_of(waiting, waiting._expire)

    def joins() -> Use:
        partner = Partner(stop_striking)
        partner.go()
        return partial(partner.dhaga.wait_for_end, None), lambda: [partner.end(), dhaga.sleep(0)]

    def ends() -> Use:
        made = new_dhaga(int)
        joiner = waiter_of(partial(made.wait_for_end, None))
        return made._end, lambda: result_of(joiner, made._end)

    def runs() -> Use:
        made = new_dhaga(NOT_STRUCK)
        return made.run, lambda: made.has_ended

    def sets_up() -> Use:
        made: Any = Dhaga.__new__(Dhaga)
        return (
            partial(made.set_up_dhaga, scheduler(), int, (), None, "made", False, None, NORMAL),
            lambda: new_dhaga(int).name,
        )

    def admits() -> Use:
        done: list[int] = []
        made = new_dhaga(lambda: done.append(1))
        live = len(scheduler().live)
        return partial(scheduler().admit, made), lambda: [
            dhaga.sleep(0),
            len(done),
            len(scheduler().live) - live,
            dhaga.spawn(int).result(PATIENCE),
        ]

    def adds() -> Use:
        timers = Timers()
        return partial(timers.add, 2.0, Expiring()), lambda: [len(timers), timers.fire(3.0), len(timers), timers.fired]

    def discards() -> Use:
        timers = Timers()
        for each in range(300):
            entry = timers.add(2.0 + each, Expiring())
        return partial(timers.discard, entry), lambda: [len(timers), len(timers.heap)]

    def fires() -> Use:
        timers = Timers()
        expiring = [Expiring() for _ in range(3)]
        for each in expiring:
            timers.add(2.0, each)
        return partial(timers.fire, 3.0), lambda: [timers.fire(3.0), [each.expired for each in expiring], timers.heap]

    return {
        "sleep zero": partial(sleeps, 0),
        "sleep": partial(sleeps, 1e-4),
        "Scheduler._park": partial(parks, "_park"),
        "Dhaga.park_within": partial(parks, "park_within", None),
        "Dhaga.park_within in time": partial(parks, "park_within", 10.0),
        "Dhaga.prepare_park": prepares,
        "Dhaga.deliver_wake": partial(wakes, "deliver_wake"),
        "Dhaga.wake_parked": partial(wakes, "wake_parked"),
        "Dhaga._expire": expires,
        "Dhaga.wait_for_end": joins,
        "Dhaga._end": ends,
        "Dhaga.run": runs,
        "Dhaga.set_up_dhaga": sets_up,
        "Scheduler.admit": admits,
        "Timers.add": adds,
        "Timers.discard": discards,
        "Timers.fire": fires,
    }


class Expiring:
    expired = 0

    def _expire(self) -> None:
        self.expired += 1


SMALL = 200
"""A number of bytes, as an int that CPython never allocates: this int is made once the bytes are sent or taken."""


def of_socket() -> dict[str, Callable[[], Use]]:
    def pair() -> tuple[Any, Any]:
        near, far = socket.socketpair()
        for one, other in ((near, far), (far, near)):
            reader = waiter_of(partial(one.recv, 9))
            other.sendall(b"warm")
            reader.join(PATIENCE)
        return near, far

    def left(near: Any, far: Any, *partners: Partner) -> object:
        for each in partners:
            each.end()
        near.sendall(b".")
        far.sendall(b".")
        with near, far:
            return [len(until_dot(near)), len(until_dot(far))]

    def until_dot(sock: Any) -> bytes:
        got = b""
        while not got.endswith(b"."):
            got += sock.recv(100_000)
        return got

    def reads(name: str, *args: object) -> Use:
        near, far = pair()
        far.sendall(b"k" * 700)
        return partial(getattr(near, name), *args), lambda: left(near, far)

    def waits(name: str, *args: object, timeout: float | None = None) -> Use:
        near, far = pair()
        near.settimeout(timeout)
        partner = Partner(partial(far.sendall, b"k" * SMALL))
        partner.go()
        return partial(getattr(near, name), *args), lambda: left(near, far, partner)

    def writes(name: str, *flags: int) -> Use:
        near, far = pair()
        return partial(getattr(near, name), b"bytes", *flags), lambda: left(near, far)

    def polls() -> Use:
        near, far = pair()
        reader = waiter_of(partial(near.recv, 9))
        far.sendall(b"more")
        poller = scheduler().poller
        return poller.poll, lambda: [reader.result(PATIENCE), left(near, far)]

    def looks_for_events() -> Use:
        near, far = pair()
        far.sendall(b"more")
        return partial(has_event, near.fileno()), lambda: [near.recv(9), has_event(near.fileno()), left(near, far)]

    return {
        "socket.recv": partial(reads, "recv", 1000),
        "socket.recv large": partial(reads, "recv", 4096),
        "socket.recv waits": partial(waits, "recv", 1000),
        "socket.recv waits in time": partial(waits, "recv", 1000, timeout=10.0),
        "socket.recv_into": partial(reads, "recv_into", bytearray(200)),
        "socket.recv_into waits": partial(waits, "recv_into", bytearray(2000)),
        "socket.send": partial(writes, "send"),
        "socket.send at once": partial(writes, "send", socket.MSG_DONTWAIT),
        "socket.sendall": partial(writes, "sendall"),
        "Epoll.poll": polls,
        "has_event": looks_for_events,
    }


HEAD = b"GET /path?query HTTP/1.1\r\nHost: x\r\nA: 1\r\n\r\n"
BASE: dict[str, Any] = {"SCRIPT_NAME": ""}
FIELDS = [("Content-Type", "text/plain"), ("Content-Length", "5")]


def repeating_connection() -> ServerConnection:
    """Return a connection whose client has repeated its fields, and whose app has repeated the fields of responses."""
    with socket.socket() as sock:
        made = ServerConnection(Server(lambda *_: []), sock, ("127.0.0.1", 1), BASE)
    for _ in range(2):
        made.parser.buffer = HEAD
        made.parser.head(BASE)
        response = Response(made, "GET", "HTTP/1.1")
        response.start("200 OK", [*FIELDS])
        response.head(5)
    assert made.parser.known_block
    return made


def of_http() -> dict[str, Callable[[], Use]]:
    def parses() -> Use:
        parser = repeating_connection().parser
        parser.buffer = HEAD + b"more"

        def state() -> object:
            left = len(parser.buffer)
            parser.buffer = HEAD
            return [left, parser.head(BASE), parser.complete]

        return partial(parser.head, BASE), state

    def fills() -> Use:
        connection = repeating_connection()
        connection.body_wait = 1.0
        return partial(connection.fill_environ, {}), lambda: [connection.body_wait, connection.fill_environ({})]

    def starts() -> Use:
        response = Response(repeating_connection(), "GET", "HTTP/1.1")

        def state() -> object:
            started = response.status, response.lines, response.length, response.app_fields
            response.status = ""
            response.start("200 OK", [*FIELDS])
            return [*started, response.head(5)[:50]]

        return partial(response.start, "200 OK", [*FIELDS]), state

    def makes_head(*length: int | None, **whole: bool) -> Use:
        response = Response(repeating_connection(), "GET", "HTTP/1.1")
        response.start("200 OK", FIELDS[:1])
        return partial(response.head, *length, **whole), lambda: [response.remaining, response.chunked]

    def arms() -> Use:
        timer = repeating_connection().idle_timer
        timer.arm(1.0)
        timer.deadline = 0.0
        return partial(timer.arm, 2.0), lambda: [timer.deadline > 0, timer.waiter is timer.me, timer.close()]

    return {
        "IdleTimer.arm": arms,
        "RequestParser.head": parses,
        "ServerConnection.fill_environ": fills,
        "Response.start": starts,
        "Response.head": partial(makes_head, 5),
        "Response.head whole": partial(makes_head, 5, whole=True),
        "Response.head chunked": partial(makes_head, None),
    }


def contexts() -> tuple[Any, Any]:
    """Return the TLS contexts of a server and a client that trusts it."""
    import trustme

    authority = trustme.CA()
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("localhost").configure_cert(server)
    authority.configure_trust(client)
    return server, client


def of_tls(server: Any, client: Any) -> dict[str, Callable[[], Use]]:
    def pair() -> tuple[Any, Any]:
        one, other = socket.socketpair()
        accepted = dhaga.spawn(server.wrap_socket, one, server_side=True)
        near: Any = client.wrap_socket(other, server_hostname="localhost")
        far: Any = accepted.result(PATIENCE)
        for here, there in ((near, far), (far, near)):
            reader = waiter_of(partial(here.recv, 9))
            there.sendall(b"warm")
            reader.join(PATIENCE)
        return near, far

    def left(near: Any, far: Any, *partners: Partner) -> object:
        for each in partners:
            each.end()
        near.sendall(b".")
        far.sendall(b".")
        with near, far:
            return [until_dot(near), until_dot(far)]

    def until_dot(sock: Any) -> int:
        got = b""
        while not got.endswith(b"."):
            got += sock.recv(1000)
        return len(got)

    def reads(name: str, *args: object) -> Use:
        near, far = pair()
        far.sendall(b"k" * SMALL)
        return partial(getattr(near, name), *args), lambda: left(near, far)

    def waits(name: str, *args: object) -> Use:
        near, far = pair()
        partner = Partner(partial(far.sendall, b"k" * SMALL))
        partner.go()
        return partial(getattr(near, name), *args), lambda: left(near, far, partner)

    def writes() -> Use:
        near, far = pair()
        return partial(near.write, b"bytes"), lambda: left(near, far)

    return {
        "SSLSocket.recv": partial(reads, "recv", 100),
        "SSLSocket.recv waits": partial(waits, "recv", 100),
        "SSLSocket.read": partial(reads, "read", 100),
        "SSLSocket.read into": partial(reads, "read", 100, bytearray(100)),
        "SSLSocket.write": writes,
    }


def uses(server: Any, client: Any) -> dict[str, Callable[[], Use]]:
    """Return all uses by name: the compiled function's name, and the way of the use."""
    return {
        **of_lock(threading.Lock),
        **of_lock(threading.RLock),
        **of_semaphore(threading.Semaphore),
        **of_semaphore(threading.BoundedSemaphore),
        **of_event(),
        **of_queue(queue.Queue),
        **of_queue(queue.SimpleQueue),
        **of_caller(),
        **of_wait_queue(),
        **of_kernel(),
        **of_socket(),
        **of_http(),
        **of_tls(server, client),
    }
