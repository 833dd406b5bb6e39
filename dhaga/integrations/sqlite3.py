"""sqlite3 in a patched program: calls that need a locked database park, and long statements let other dhagas run.

SQLite waits in C for the locks of other connections, up to ``timeout`` seconds. Meanwhile no dhaga of the OS thread can
run and release a lock. ``install`` replaces ``Connection`` and ``Cursor`` with classes that set the timeout in C to 0
and retry until the connection's timeout. ``executescript`` still waits in C, because a retry would repeat its first
statements. A statement in a transaction that already holds a lock waits in C briefly at each try. During such waits,
SQLite detects that two transactions wait for each other, and refuses one of them at once. ``_statement_turns.py``
handles long statements.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial, wraps
from itertools import chain
from os import fsencode
from typing import Any

from .._kernel import originals
from .._kernel.backoff import backoff
from .._kernel.run.call_outs import calls_out
from .._kernel.run.scheduler import sleep
from .._kernel.wait.current import clock_here, parking_waiter
from ._statement_turns import STEPS, StatementTurns

__all__ = ["install", "uninstall"]

PAUSES = 0.001, 0.05
"""First and longest pause between two tries, in seconds. SQLite's own pauses in C are about the same."""

SLICE = 0.005
"""Seconds of one wait in C for a statement in a transaction. A shorter wait means that SQLite refused the statement."""

NAMES = ("Connection", "Cursor", "connect")
MODULES = (sqlite3, sqlite3.dbapi2)
StandardConnection = sqlite3.Connection
StandardCursor = sqlite3.Cursor
standard: dict[str, Any] = {name: getattr(sqlite3, name) for name in NAMES}
"""The standard objects. ``dhaga.monkey.original`` also returns them."""


def install() -> None:
    """Replace the classes and ``connect``. Connections that are already open still wait in C."""
    for module in MODULES:
        for name, ours in zip(NAMES, (Connection, Cursor, connect), strict=True):
            setattr(module, name, ours)


def uninstall() -> None:
    """Restore the standard classes. Open connections keep parking."""
    for module in MODULES:
        for name in NAMES:
            setattr(module, name, standard[name])


def connect(*arguments: Any, **options: Any) -> Any:
    """Open a connection that parks. Its class is derived from ``factory``. Source: ``sqlite3.connect``."""
    if len(arguments) > 5:
        arguments = *arguments[:5], parking(arguments[5], Connection), *arguments[6:]
    else:
        options["factory"] = parking(options.get("factory", Connection), Connection)
    return standard["connect"](*arguments, **options)


@lru_cache(maxsize=256)
def parking(factory: Any, base: type) -> Any:
    """Return a class derived from ``factory`` and ``base``; a function is returned unchanged."""
    if not isinstance(factory, type) or issubclass(factory, base):
        return factory
    if issubclass(base, factory):
        return base
    # The program's class comes first, so that ``super()`` in its methods calls the methods of ``base``.
    return type(factory.__name__, (factory, base), {"__module__": factory.__module__})


# ---- retrying


def is_busy(error: sqlite3.OperationalError) -> bool:
    """Return whether an error means that another connection holds a lock.

    The error of an outdated snapshot does not count: waiting would not help.
    """
    code = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF == sqlite3.SQLITE_BUSY and code != sqlite3.SQLITE_BUSY_SNAPSHOT


@calls_out
def retried(connection: Connection, call: Callable[[], Any]) -> Any:
    """Repeat a call until the lock is free, or the connection's timeout is over.

    Parks: between two tries (``sleep``). A plain OS thread waits in C.
    """
    try:
        return connection._dhaga_turns.run(call)
    except sqlite3.OperationalError as error:
        if not (connection._dhaga_timeout > 0 and is_busy(error)):
            raise
    return call_again(connection, call)


@calls_out
def call_again(connection: Connection, call: Callable[[], Any]) -> Any:
    if parking_waiter() is None:
        return called_in_c(connection, call)
    clock = clock_here()
    deadline = clock() + connection._dhaga_timeout
    for pause in backoff(*PAUSES):
        sleep(pause)
        try:
            return connection._dhaga_turns.run(call)
        except sqlite3.OperationalError as error:
            if clock() >= deadline or not is_busy(error):
                raise


@calls_out
def called_in_c(connection: Connection, call: Callable[[], Any]) -> Any:
    """Call a function while the connection's timeout is set in C. The function may make other such calls."""
    connection._dhaga_turns.wait()
    connection._dhaga_calls_in_c += 1
    try:
        if connection._dhaga_calls_in_c == 1:
            connection._dhaga_set_timeout(connection._dhaga_timeout)
        return connection._dhaga_turns.run(call)
    finally:
        connection._dhaga_calls_in_c -= 1
        if not connection._dhaga_calls_in_c:
            connection._dhaga_take_timeout()


class Connection(StandardConnection):
    """A connection that parks for locks, and lets other dhagas run during long statements. Source: ``sqlite3``."""

    _dhaga_timeout = 0.0
    _dhaga_calls_in_c = 0  # number of running calls of ``called_in_c``
    # Whether a statement has run in the open transaction, which may therefore hold a lock.
    _dhaga_may_hold_lock = False

    _dhaga_turns = StatementTurns()
    _dhaga_new_handler: Callable[[], Callable[[], bool] | None]
    """Returns Dhaga's progress handler, or None if several OS threads may use the connection, or if it shares a cache.

    A progress handler acquires the interpreter lock within a statement. Meanwhile another OS thread might hold this
    lock and wait in C for the end of the statement. A statement also holds the mutex of a shared cache. Other
    connections of the cache would wait in C for a statement that pauses.
    """

    def __init__(self, database: Any, *arguments: Any, **options: Any) -> None:
        super().__init__(database, *arguments, **options)
        self._dhaga_turns = StatementTurns()
        same_thread = arguments[3] if len(arguments) > 3 else options.get("check_same_thread", True)
        pauses = same_thread and b"cache=shared" not in fsencode(database)
        self._dhaga_new_handler = self._dhaga_turns.new_handler if pauses else lambda: None
        super().set_progress_handler(self._dhaga_new_handler(), STEPS)
        self._dhaga_take_timeout()

    def _dhaga_take_timeout(self) -> None:
        """Store the timeout that is set in C, and set C's timeout to 0."""
        ((milliseconds,),) = StandardCursor(self).execute("PRAGMA busy_timeout").fetchall()
        self._dhaga_timeout = milliseconds / 1000
        self._dhaga_set_timeout(0)

    def _dhaga_set_timeout(self, seconds: float) -> None:
        """Set the timeout in C."""
        StandardCursor(self).execute(f"PRAGMA busy_timeout = {round(seconds * 1000)}")

    def cursor(self, factory: Any = StandardCursor) -> Any:
        """Return a cursor that parks to wait for locks."""
        return super().cursor(parking(factory, Cursor))

    @calls_out
    def execute(self, *arguments: Any) -> Any:
        """Execute a statement with a new cursor. Parks: like ``Cursor.execute``."""
        return super().cursor(Cursor).execute(*arguments)

    @calls_out
    def executemany(self, *arguments: Any) -> Any:
        """Execute a statement for each row with a new cursor. Parks: like ``Cursor.executemany``."""
        return super().cursor(Cursor).executemany(*arguments)

    @calls_out
    def executescript(self, *arguments: Any) -> Any:
        """Execute several statements with a new cursor. Wait for locks in C."""
        return super().cursor(Cursor).executescript(*arguments)

    @calls_out
    def commit(self) -> None:
        """Commit the transaction. Parks: while another connection reads or writes (``sleep``)."""
        retried(self, super().commit)

    def blobopen(self, *arguments: Any, **options: Any) -> Any:
        """Open a blob. Parks: like ``commit``."""
        return retried(self, partial(super().blobopen, *arguments, **options))

    def set_progress_handler(self, *arguments: Any, **options: Any) -> None:
        """Set the program's progress handler. From then on, other dhagas run during a long statement only when SQLite
        calls this handler, and only if no other OS thread may use the connection.
        """
        self._dhaga_turns.wait(must_end=True)
        super().set_progress_handler(*arguments, **options)  # this call checks the arguments
        progress_handler = arguments[0] if arguments else options["progress_handler"]
        n = arguments[1] if len(arguments) > 1 else options["n"]
        ours = self._dhaga_new_handler()
        if progress_handler is None or n < 1:
            super().set_progress_handler(ours, STEPS)
        elif ours is not None:
            # As in standard sqlite3, C drops the errors of the program's handler.
            super().set_progress_handler(calls_out(lambda: progress_handler() or ours()), n)

    @calls_out
    def __exit__(self, *error: Any) -> Any:
        # The standard method would wait in C to commit. Like the standard method, roll back if the commit fails.
        if error[0] is not None:
            return super().__exit__(*error)
        try:
            Connection.commit(self)
        except BaseException as failure:
            super().__exit__(type(failure), failure, failure.__traceback__)
            raise
        return False


def parking_property(name: str) -> property:
    """Return a property of Connection whose setter parks, because it may commit."""
    own = getattr(StandardConnection, name)
    return property(own.__get__, lambda self, value: retried(self, partial(own.__set__, self, value)), doc=own.__doc__)


for name in {"autocommit", "isolation_level"} & vars(StandardConnection).keys():
    setattr(Connection, name, parking_property(name))


def waiting_method(name: str) -> Any:
    """Return a method of Connection that waits while a statement is paused, and then calls the standard method.

    In a coroutine or callback, the method raises ParkError during a pause. Without this error, ``close`` would free the
    paused statement.
    """
    standard_method = getattr(StandardConnection, name)

    @wraps(standard_method)
    @calls_out
    def method(self: Connection, *arguments: Any, **options: Any) -> Any:
        self._dhaga_turns.wait(must_end=True)
        return standard_method(self, *arguments, **options)

    return method


WAITING_METHODS = (
    "backup", "close", "create_aggregate", "create_collation", "create_function", "create_window_function",
    "deserialize", "enable_load_extension", "load_extension", "rollback", "serialize", "set_authorizer",
    "set_trace_callback", "setconfig", "setlimit",
)  # fmt: skip
"""Methods that SQLite forbids, or that would fail, between two steps of a statement.

``interrupt`` is not one of them: it must not wait.
"""

for name in vars(StandardConnection).keys() & WAITING_METHODS:
    setattr(Connection, name, waiting_method(name))


class Cursor(StandardCursor):
    """A cursor that parks to wait for locks. Source: ``sqlite3.Cursor``."""

    @calls_out
    def execute(self, sql: str, parameters: Any = (), /) -> Any:
        """Execute a statement. If this takes long, other dhagas run meanwhile.

        Parks: while another connection holds a lock that the statement needs (``sleep``).
        """
        return self._dhaga_run(sql, partial(super().execute, sql, parameters))

    @calls_out
    def executemany(self, sql: str, parameters: Iterable[Any], /) -> Any:
        """Execute a statement for each row. Parks: like ``execute``. ``rowcount`` omits rows before the last retry."""
        return self._dhaga_run(sql, partial(super().executemany, sql, Resumable(parameters)))

    @calls_out
    def executescript(self, sql_script: str, /) -> Any:
        """Execute several statements. Wait for locks in C."""
        connection: Any = self.connection
        script = partial(super().executescript, sql_script)
        return called_in_c(connection, script) if isinstance(connection, Connection) else script()

    @calls_out
    def fetchmany(self, *arguments: Any, **options: Any) -> Any:
        """Fetch rows. If this takes long, other dhagas run meanwhile."""
        connection: Any = self.connection
        fetch = partial(super().fetchmany, *arguments, **options)
        return connection._dhaga_turns.run(fetch) if isinstance(connection, Connection) else fetch()

    @calls_out
    def fetchall(self) -> Any:
        """Fetch all rows. If this takes long, other dhagas run meanwhile."""
        connection: Any = self.connection
        return (
            connection._dhaga_turns.run(super().fetchall) if isinstance(connection, Connection) else super().fetchall()
        )

    @calls_out
    def _dhaga_run(self, sql: str, call: Callable[[], Any]) -> Any:
        connection: Any = self.connection
        if not isinstance(connection, Connection):
            return call()
        if connection._dhaga_calls_in_c or is_timeout_pragma(sql):
            return called_in_c(connection, call)
        if connection._dhaga_turns.pausing:
            connection._dhaga_turns.wait()
        inside = connection.in_transaction
        if inside and connection._dhaga_may_hold_lock and not ends_transaction(sql):
            return called_in_slices(connection, call)
        result = retried(connection, call)
        connection._dhaga_may_hold_lock = inside
        return result


@calls_out
def called_in_slices(connection: Connection, call: Callable[[], Any]) -> Any:
    """Repeat a call until the database's lock is free, or the connection's timeout is over.

    Parks: between two short waits in C (``sleep``).
    """
    try:
        return connection._dhaga_turns.run(call)
    except sqlite3.OperationalError as error:
        if not (connection._dhaga_timeout > 0 and is_busy(error)):
            raise
    if parking_waiter() is None:
        return called_in_c(connection, call)
    clock = clock_here()
    deadline = clock() + connection._dhaga_timeout
    for pause in backoff(*PAUSES):
        connection._dhaga_set_timeout(SLICE)
        began = originals.monotonic()
        try:
            return connection._dhaga_turns.run(call)
        except sqlite3.OperationalError as error:
            if not is_busy(error) or originals.monotonic() - began < SLICE or clock() >= deadline:
                raise
        finally:
            connection._dhaga_set_timeout(0)
        sleep(pause)


def is_timeout_pragma(sql: Any) -> bool:
    return isinstance(sql, str) and sql.lstrip()[:6].lower() == "pragma" and "busy_timeout" in sql.lower()


def ends_transaction(sql: Any) -> bool:
    return isinstance(sql, str) and sql.lstrip()[:6].lower().startswith(("commit", "end"))


class Resumable:
    """Rows that can be iterated again. An iteration begins with the row at which the previous iteration failed."""

    def __init__(self, rows: Iterable[Any]) -> None:
        self.rest: Iterator[Any] = iter(rows)
        self.last: list[Any] = []

    def __iter__(self) -> Iterator[Any]:
        for row in chain(self.last, self.rest):
            self.last = [row]
            yield row


for kind, shown in ((Connection, StandardConnection), (Cursor, StandardCursor)):
    kind.__module__, kind.__doc__ = shown.__module__, shown.__doc__
