"""Questions to a process: dumps of one dhaga, cancels, traces, and what is refused."""

from __future__ import annotations

import json
import threading
from typing import Any

import greenlet
import pytest

import dhaga
from dhaga import queue
from dhaga._kernel import hooks, originals
from dhaga.debug import trace
from dhaga.debug._remote.client import InspectorClient
from dhaga.debug._remote.not_answered import NotAnswered
from tests.kit import scripts
from tests.kit.inspectors import park_all


def settle(scheduler: dhaga.Scheduler) -> None:
    """Wait until a scheduler has come to all that it was called for."""
    settled = threading.Event()
    scheduler.call(settled.set)
    assert settled.wait(scripts.PATIENCE)


def test_the_trace_of_the_last_seconds_tells_who_ran(line: InspectorClient, observed: dhaga.Scheduler) -> None:
    def names() -> set[Any]:
        events = line.ask("trace", seconds=5)["traceEvents"]
        return {event["args"]["name"] for event in events if event["ph"] == "M"}

    names()
    observed.spawn(dhaga.sleep, 0, name="ran").join()
    while "ran" not in names():
        pass


def test_traces_do_not_disturb_each_other(observed: dhaga.Scheduler) -> None:
    first, second = trace(), trace()
    settle(observed)
    observed.spawn(dhaga.sleep, 0, name="both").join()
    first.stop()
    first.stop()
    settle(observed)
    observed.spawn(dhaga.sleep, 0, name="second").join()
    second.stop()
    settle(observed)
    observed.spawn(dhaga.sleep, 0, name="none").join()
    seen = [{getattr(who, "name", "hub") for note in each._records for who in note[1:3]} for each in (first, second)]
    assert [names & {"both", "second", "none"} for names in seen] == [{"both"}, {"both", "second"}]
    assert hooks.on_wake is None


def test_a_dump_of_one_tells_where_it_is(line: InspectorClient, observed: dhaga.Scheduler) -> None:
    def sleep_here() -> None:
        dhaga.sleep(60)

    sleeper = observed.spawn(sleep_here, name="sleeper")
    park_all(observed, sleeper)
    text = line.ask("dump", ident=sleeper.ident)["text"]
    assert text.startswith("sleeper WAITING, waits for")
    assert "in sleep_here" in text
    observed.call(observed.cancel_all)


@pytest.mark.crowd
def test_a_dump_of_one_that_holds_its_thread_tells_where_that_is(
    line: InspectorClient, observed: dhaga.Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go = []

    def hold() -> None:
        while not let_go:
            pass

    holder = observed.spawn(hold, name="holder")
    text = ""
    while "in hold" not in text:
        text = line.ask("dump", ident=holder.ident)["text"]
    assert text.startswith("holder RUNNING")
    let_go.append(True)


def test_a_dump_of_a_plain_thread_tells_where_it_waits(line: InspectorClient) -> None:
    jobs: queue.Queue[None] = queue.Queue()

    def get_here() -> None:
        jobs.get()

    thread = originals.Thread(target=get_here, name="plain")
    thread.start()
    while not (rows := [row for row in line.ask("table")["rows"] if row["name"] == "plain"]):
        pass
    text = line.ask("dump", ident=rows[0]["ident"])["text"]
    jobs.put(None)
    thread.join()
    assert text.startswith("plain WAITING, waits for")
    assert "in get_here" in text


def test_a_request_for_the_measurement_starts_it(line: InspectorClient, observed: dhaga.Scheduler) -> None:
    assert observed.spawn(greenlet.gettrace).result() is None
    assert line.ask("measure") == {}
    assert observed.spawn(greenlet.gettrace).result() is not None


def test_a_dhaga_is_cancelled_and_nobody_else(line: InspectorClient, observed: dhaga.Scheduler) -> None:
    victim = observed.spawn(dhaga.sleep, 60, name="victim")
    other = observed.spawn(dhaga.sleep, 60)
    assert line.ask("cancel", ident=victim.ident) == {"name": "victim", "cancelled": True}
    with pytest.raises(dhaga.Cancelled, match="from outside the process"):
        victim.result(30)
    assert other.is_alive()
    with pytest.raises(NotAnswered, match="it has ended, or is not a dhaga"):
        line.ask("cancel", ident=victim.ident)
    with pytest.raises(NotAnswered, match="it has ended"):
        line.ask("dump", ident=victim.ident)
    observed.call(observed.cancel_all)


@pytest.mark.parametrize(
    ("question", "error"),
    [
        (b"what?", "a query is one line of JSON"),
        (b"[" * 60_000, "a query is one line of JSON"),
        (b"[]", "a query is an object with a field ask"),
        (b'{"ask": "exec"}', "there is no query 'exec'; the queries are table, history, dump"),
        (b'{"ask": "cancel"}', "missing a required argument: 'ident'"),
        (b'{"ask": "cancel", "ident": "1"}', "the query cancel does not accept ident='1'"),
        (b'{"ask": "table", "self": 1}', "the query table does not accept self=1"),
        (b'{"ask": "table", "sort": "size"}', "rows are sorted by held, share, waited"),
        (b'{"ask": "trace", "seconds": 1e9}', "at most 60 seconds"),
        (b'{"ask": []}', "there is no query"),
    ],
)
def test_a_question_that_cannot_be_answered_is_refused_with_the_reason(
    line: InspectorClient, question: bytes, error: str
) -> None:
    for _ in range(2):  # the line goes on
        line.socket.sendall(question + b"\n")
        assert error in json.loads(line.file.readline())["error"]
