"""SQLite's statements that run long let others run. Each counts for longer than any test lasts, unless interrupted."""

from __future__ import annotations

import signal as standard_signal
import sqlite3 as standard
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import dhaga
from dhaga import signal, threading
from dhaga.integrations import sqlite3 as integration
from dhaga.integrations._statement_turns import StatementTurns
from tests.kit.scripts import prints

ROWS = "with recursive n(i) as (select 1 union all select i + 1 from n where i < {}) select {} from n"
LONG = 5_000_000
"""Rows that take seconds."""

FOREVER = ROWS.format(LONG, "count(*)")
SHORT_WHILE = ROWS.format(200_000, "count(*)")


@pytest.fixture
def db() -> Iterator[Any]:
    integration.install()
    connection = standard.connect(":memory:", isolation_level=None)
    yield connection
    connection.close()
    integration.uninstall()


@pytest.mark.parametrize(
    "run",
    [
        lambda db: db.execute(FOREVER),
        lambda db: db.cursor().executemany("insert into t select ? from (" + FOREVER + ")", [(1,)]),
        lambda db: db.executescript(FOREVER),
        # The first row comes at once, so that the time is spent in the fetch.
        lambda db: db.execute(ROWS.format(LONG, "i") + " where i = 1 or i < 0").fetchall(),
        lambda db: db.execute(ROWS.format(LONG, "i") + " where i = 1 or i < 0").fetchmany(2),
    ],
)
def test_a_long_statement_can_be_interrupted_by_another_dhaga(db: Any, run: Callable[[Any], object]) -> None:
    db.execute("create table t (x)")
    timer = dhaga.spawn_later(0.02, db.interrupt)
    with pytest.raises(standard.OperationalError, match="interrupted"):
        run(db)
    timer.join()


def while_it_runs(db: Any, call: Callable[[], object]) -> list[str]:
    """Make a call in the middle of another dhaga's statement. Returns: what ended, in its order."""
    trace: list[str] = []

    def count() -> None:
        db.execute(SHORT_WHILE)
        trace.append("statement")

    def call_in_a_pause() -> None:
        while not (db._dhaga_turns.pausing or trace):
            dhaga.sleep(0)
        call()
        trace.append("call")

    for each in [dhaga.spawn(count), dhaga.spawn(call_in_a_pause)]:
        each.result()
    return trace


def test_calls_on_the_same_connection_wait_for_the_statement(db: Any) -> None:
    copy = standard.connect(":memory:")
    db.execute("create table t (x)")
    db.execute("begin")
    calls = [
        lambda: db.execute("insert into t values (1)"),
        lambda: db.executemany("insert into t values (?)", [(2,)]),
        lambda: db.executescript("select 1"),
        db.commit,
        db.rollback,
        lambda: db.create_function("f", 1, abs),
        lambda: db.backup(copy),
        lambda: db.set_progress_handler(None, 0),
    ]
    for call in calls:
        assert while_it_runs(db, call) == ["statement", "call"]
    assert db.execute("select x from t").fetchall() == [(1,), (2,)]
    copy.close()


def test_a_callback_cannot_call_what_would_have_to_wait(db: Any) -> None:
    """It would free the statement that pauses."""
    calls = [db.close, db.rollback, lambda: db.set_progress_handler(None, 0), lambda: db.create_function("f", 1, abs)]
    outcomes: list[str] = []

    def call_all() -> None:
        for call in calls:
            try:
                call()
            except dhaga.ParkError:
                outcomes.append("refused")
        outcomes.append(str(db.execute("select 1").fetchone()))

    def call_on_the_hub() -> None:
        done = threading.Event()
        loop.call_soon(lambda: (call_all(), done.set()))
        done.wait()

    loop = dhaga.current().scheduler.loop
    assert while_it_runs(db, call_on_the_hub) == ["call", "statement"]
    assert outcomes == ["refused"] * len(calls) + ["(1,)"]


def test_each_method_that_needs_the_whole_connection_waits() -> None:
    """The others of the standard class: its attributes, ``interrupt``, and those that only make an object."""
    waits = {name for name, each in vars(integration.Connection).items() if callable(each)}
    methods = {name for name, each in vars(standard.Connection).items() if callable(each) and name[0] != "_"}
    assert methods - waits - {"interrupt", "cursor", "iterdump", "getconfig", "getlimit"} <= {
        name for name in methods if name.endswith(("Error", "Warning"))
    }


def test_other_connections_and_an_iteration_go_on_during_a_statement(db: Any) -> None:
    cursor = db.execute(ROWS.format(LONG, "i") + " where i % 100000 = 0")
    assert while_it_runs(db, lambda: next(cursor)) == ["call", "statement"]
    other = standard.connect(":memory:")
    assert while_it_runs(db, lambda: other.execute("create table t (x)")) == ["call", "statement"]
    other.close()


class Struck(Exception):
    pass


@pytest.mark.parametrize("set_handler", [standard_signal.signal, signal.signal])
def test_an_error_of_a_signals_handler_comes_out_of_the_statement(db: Any, set_handler: Any) -> None:
    def strike(*_: object) -> None:
        raise Struck

    before = set_handler(standard_signal.SIGALRM, strike)
    try:
        with pytest.raises(Struck):
            standard_signal.setitimer(standard_signal.ITIMER_REAL, 0.02)
            db.execute(FOREVER)
        assert db.execute("select 1").fetchone() == (1,)
    finally:
        set_handler(standard_signal.SIGALRM, before)


def test_the_programs_progress_handler_is_called_and_others_run(db: Any) -> None:
    calls: list[object] = []
    db.set_progress_handler(lambda: calls.append(1), 1000)
    assert while_it_runs(db, lambda: calls.append("other")) == ["call", "statement"]
    assert 1 in calls[: calls.index("other")] and calls[-1] == 1
    db.set_progress_handler(lambda: len(calls) and 1, 1000)
    with pytest.raises(standard.OperationalError, match="interrupted"):
        db.execute(FOREVER)
    db.set_progress_handler(lambda: 1 // 0, 1000)
    with pytest.raises(standard.OperationalError, match="interrupted"):
        db.execute(FOREVER)
    db.set_progress_handler(None, 1000)
    assert while_it_runs(db, lambda: None) == ["call", "statement"]


def test_a_connection_of_several_threads_has_only_the_programs_progress_handler() -> None:
    """A progress handler needs the interpreter lock, with which another OS thread might wait for the statement."""
    integration.install()
    shared = standard.connect(":memory:", check_same_thread=False)
    trace: list[str] = []
    other = dhaga.spawn(trace.append, "other")
    shared.execute(SHORT_WHILE)
    shared.set_progress_handler(lambda: trace.append("handler"), 100_000)
    shared.execute(SHORT_WHILE)
    shared.set_progress_handler(None, 0)
    shared.execute(SHORT_WHILE)
    trace.append("statements")
    other.join()
    assert trace[0] == "handler" and set(trace[:-2]) == {"handler"} and trace[-2:] == ["statements", "other"]
    shared.close()
    integration.uninstall()


def test_connections_of_a_shared_cache_do_not_wait_for_a_statement_that_pauses() -> None:
    assert prints("""
        import dhaga.monkey
        dhaga.monkey.patch()
        import dhaga, sqlite3
        numbers = "with recursive r(i) as (select 1 union all select i + 1 from r where i < 1000000)"
        connections = [sqlite3.connect("file:cached?mode=memory&cache=shared", uri=True) for _ in range(2)]
        connections[0].executescript("create table t (a); insert into t values (1)")
        counting = dhaga.spawn(lambda: connections[0].execute(f"{numbers} select count(*) from r, t").fetchall())
        dhaga.sleep(0)
        print(connections[1].execute("select count(*) from t").fetchall())
        print(counting.result())
    """) == ["[(1,)]", "[(1000000,)]"]


@pytest.mark.skipif(sys.version_info >= (3, 15), reason="takes keywords only")
@pytest.mark.parametrize("arguments, shared", [((), False), ((5, 0, "", False), True), ((5, 0, "", True), False)])
@pytest.mark.filterwarnings("ignore:Passing more than 1 positional argument:DeprecationWarning")
def test_the_thread_check_may_be_a_positional_argument(arguments: Any, shared: bool) -> None:
    integration.install()
    connection: Any = standard.connect(":memory:", *arguments)
    assert (connection._dhaga_new_handler() is None) == shared
    connection.close()
    integration.uninstall()


def test_a_thread_and_a_dhaga_use_one_connection_at_once() -> None:
    assert prints("""
        import dhaga.monkey
        dhaga.monkey.patch()
        import dhaga, sqlite3
        numbers = "with recursive r(i) as (select 1 union all select i + 1 from r where i < 1000000)"
        connection = sqlite3.connect(":memory:", check_same_thread=False)
        count = f"{numbers} select count(*) from r"
        counting = dhaga.spawn(dhaga.offload, lambda: connection.execute(count).fetchall())
        # No function written in Python may run in a statement here: CPython keeps the interpreter lock where it waits
        # for SQLite's to bind parameters, and the function waits for the interpreter lock.
        for i in range(20):
            connection.execute("select ?", (i,)).fetchone()
            dhaga.sleep(0.001)
        print(counting.result())
    """) == ["[(1000000,)]"]


@pytest.mark.parametrize("block", [dhaga.no_preempt, dhaga.no_park])
def test_a_statement_keeps_its_turn_where_the_program_says_so(db: Any, block: Any) -> None:
    trace: list[str] = []
    other = dhaga.spawn(trace.append, "other")
    with block():
        db.execute(SHORT_WHILE)
        trace.append("statement")
    other.join()
    assert trace == ["statement", "other"]


def test_a_statement_in_a_transaction_waits_for_one_that_pauses(tmp_path: Path) -> None:
    """The writer, which holds the lock, pauses in its statement: a wait in C would last until the timeout."""
    integration.install()
    writer, other = (standard.connect(tmp_path / "file.db", timeout=60, isolation_level=None) for _ in range(2))
    writer.execute("create table t (x)")
    other.execute("begin")
    trace: list[str] = []

    def write() -> None:
        writer.execute("insert into t " + SHORT_WHILE)
        trace.append("written")

    def write_more() -> None:
        other.execute("savepoint s")
        other.execute("create temp table mine (x)")
        other.execute("insert into t values (1)")
        trace.append("other written")

    with dhaga.fail_after(50):
        first = dhaga.spawn(write)
        while not writer._dhaga_turns.pausing:  # type: ignore[attr-defined]
            dhaga.sleep(0)
        dhaga.spawn(write_more).result()
        first.result()
    assert trace == ["written", "other written"]
    other.execute("commit")
    writer.close()
    other.close()
    integration.uninstall()


def test_a_connection_is_closed_with_its_last_reference(db: Any) -> None:
    """Its progress handler must not hold it."""
    closed: list[int] = []

    class Own(integration.Connection):
        def __del__(self) -> None:
            closed.append(1)

    standard.connect(":memory:", factory=Own).close()
    assert closed == [1]
    assert repr(StatementTurns()) == "<StatementTurns: no statement pauses>"
