"""sqlite3 in dhagas: waits for the locks of other connections park. All connections are to one file."""

from __future__ import annotations

import contextlib
import sqlite3 as standard
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import dhaga
from dhaga.integrations import sqlite3 as integration
from tests.kit.scripts import prints

Connect = Callable[..., standard.Connection]


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Connect]:
    integration.install()
    opened: list[standard.Connection] = []

    def connect(timeout: float = 20, **options: Any) -> standard.Connection:
        opened.append(standard.connect(tmp_path / "file.db", timeout=timeout, check_same_thread=False, **options))
        return opened[-1]

    with connect() as first:
        first.execute("create table t (x)")
    yield connect
    for connection in opened:
        connection.close()
    integration.uninstall()


def rows(connection: standard.Connection) -> list[int]:
    return [x for (x,) in connection.execute("select x from t order by rowid")]


def while_locked(connect: Connect, fn: Callable[[], object]) -> list[str]:
    """Call ``fn`` in a dhaga while another's connection holds the write lock. Returns: what ended, in its order."""
    trace: list[str] = []
    holder = connect(isolation_level=None)
    holder.execute("begin exclusive")

    def call() -> None:
        fn()
        trace.append("called")

    caller = dhaga.spawn(call)
    dhaga.sleep(0.02)
    trace.append("free")
    holder.execute("commit")
    caller.result()
    return trace


def test_a_statement_that_waits_for_a_lock_parks(connect: Connect) -> None:
    writer = connect()
    calls: list[Callable[[], object]] = [
        lambda: writer.execute("insert into t values (1)"),
        lambda: writer.cursor().execute("select * from t"),
        lambda: writer.execute("begin immediate"),
        lambda: writer.cursor(type("Own", (integration.StandardCursor,), {})).execute("select * from t").fetchall(),
    ]
    for call in calls:
        assert while_locked(connect, call) == ["free", "called"]
        writer.commit()
    assert rows(writer) == [1]


@pytest.mark.parametrize("level", ["", None])
def test_many_rows_are_written_once_each_whether_or_not_in_one_transaction(connect: Connect, level: Any) -> None:
    writer = connect(isolation_level=level)
    numbers = iter([(1,), (2,), (3,)])
    trace = while_locked(connect, lambda: writer.executemany("insert into t values (?)", numbers))
    writer.commit()
    assert trace == ["free", "called"] and rows(writer) == [1, 2, 3]


def test_a_commit_parks_while_another_reads(connect: Connect) -> None:
    reader, writer = connect(isolation_level=None), connect()
    trace: list[str] = []

    def read() -> None:
        reader.execute("begin")
        rows(reader)
        dhaga.sleep(0.03)
        trace.append("read")
        reader.execute("commit")

    def commit(how: Callable[[], object]) -> None:
        writer.execute("insert into t values (1)")
        how()
        trace.append("committed")

    def leave_block() -> None:
        with writer:
            pass

    for how in writer.commit, lambda: writer.execute("commit"), leave_block:
        reading = dhaga.spawn(read)
        dhaga.sleep(0)
        dhaga.spawn(commit, how).result()
        reading.result()
    assert trace == ["read", "committed"] * 3
    assert rows(reader) == [1, 1, 1]


def test_the_timeout_ends_the_wait_and_so_does_a_cancel(connect: Connect) -> None:
    holder = connect(isolation_level=None)
    holder.execute("begin immediate")
    for timeout in 0, 0.05:
        start = time.monotonic()
        with pytest.raises(standard.OperationalError, match="locked"):
            dhaga.spawn(connect(timeout).execute, "insert into t values (1)").result()
        assert time.monotonic() - start >= timeout
    with pytest.raises(TimeoutError), dhaga.fail_after(0.02):
        connect().execute("insert into t values (1)")
    holder.execute("rollback")
    assert rows(holder) == []


def test_of_two_readers_that_want_to_write_one_is_refused_at_once(connect: Connect) -> None:
    """SQLite sees that each would wait for the other."""
    trace: list[str] = []

    def read_and_write(name: str) -> None:
        connection = connect(isolation_level=None)
        try:
            connection.execute("begin")
            rows(connection)
            dhaga.sleep(0.01)
            connection.execute("insert into t values (1)")
            connection.execute("commit")
        except standard.OperationalError:
            connection.execute("rollback")
            trace.append("refused")
        else:
            trace.append("written")

    start = time.monotonic()
    both = [dhaga.spawn(read_and_write, name) for name in ("first", "second")]
    for d in both:
        d.result()
    assert trace == ["refused", "written"] and time.monotonic() - start < 10


def test_the_programs_classes_and_its_pragma_are_asked(connect: Connect) -> None:
    class Own(integration.StandardConnection):
        def commit(self) -> None:
            trace.append("own")
            super().commit()

    trace: list[str] = []
    own = connect(50, factory=Own)
    assert isinstance(own, Own)
    assert while_locked(connect, lambda: own.execute("insert into t values (1)")) == ["free", "called"]
    own.commit()
    assert trace == ["own"]
    assert own.execute("PRAGMA busy_timeout").fetchone() == (50_000,)
    own.execute("pragma busy_timeout = 70000")
    assert own.execute("PRAGMA busy_timeout").fetchone() == (70_000,)
    own.executescript("insert into t values (2); insert into t values (3);")
    assert rows(own) == [1, 2, 3]
    for name in integration.NAMES:
        assert getattr(standard, name) is not integration.standard[name]


@pytest.mark.parametrize("statement", ["pragma busy_timeout = 700", "insert into t values (1)"])
def test_a_script_within_a_script_keeps_the_timeout(connect: Connect, statement: str) -> None:
    """A function that SQL calls runs the inner script, and a statement that waits in C."""
    holder, writer = connect(), connect(0.7)
    holder.execute("begin immediate")

    def inner() -> None:
        writer.executescript("select 1")
        with contextlib.suppress(standard.OperationalError):
            writer.execute(statement)

    writer.create_function("inner_script", 0, inner)
    writer.executescript("select inner_script()")
    writer.rollback()
    assert writer.execute("PRAGMA busy_timeout").fetchone() == (700,)
    holder.rollback()
    assert while_locked(connect, lambda: writer.execute("insert into t values (2)")) == ["free", "called"]


def test_plain_threads_wait_in_c(connect: Connect) -> None:
    holder, writer = connect(isolation_level=None), connect()
    holder.execute("begin immediate")
    thread = threading.Thread(target=writer.execute, args=("insert into t values (1)",))
    thread.start()
    time.sleep(0.02)
    holder.execute("commit")
    thread.join()
    writer.commit()
    assert rows(holder) == [1]


def test_a_patched_program_waits_for_the_lock_of_another_thread(tmp_path: Path) -> None:
    assert prints(f"""
        import dhaga.monkey
        dhaga.monkey.patch()
        import sqlite3, threading
        def connect():
            return sqlite3.connect({str(tmp_path / "file.db")!r}, isolation_level=None, check_same_thread=False)
        a, b = connect(), connect()
        print(type(a) is sqlite3.Connection, type(a.cursor()) is sqlite3.Cursor, sqlite3.Connection)
        a.execute("create table t (x)")
        a.execute("begin immediate")
        threading.Timer(0.05, a.execute, ("commit",)).start()
        print(b.execute("insert into t values (1)").rowcount)
        a.close(), b.close()
        dhaga.monkey.unpatch()
        print(sqlite3.connect is sqlite3.dbapi2.connect, sqlite3.Cursor.execute)
    """) == ["True True <class 'sqlite3.Connection'>", "1", "True <method 'execute' of 'sqlite3.Cursor' objects>"]
