"""The load tester, on a virtual clock, against servers that are made up: what it tells is what was."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

import dhaga
from dhaga._sync.semaphore import Semaphore
from dhaga.testing import virtual_clock
from examples.load.bounds import to_find
from examples.load.latency_bars import ROWS, bars
from examples.load.latency_histogram import LatencyHistogram
from examples.load.load import Load
from examples.load.rate_search import RateSearch, Step
from examples.load.runner import ClosedLoad, OpenLoad, conduct
from examples.load.scenarios import Scenarios, get
from examples.load.statistics import Statistics
from examples.load.users import User

URL = "http://made.up/"


@dataclass
class Answer:
    status_code: int = 200


class Session:
    """A user's connection to a server that is a function."""

    def __init__(self, serve: Callable[[str], int]) -> None:
        self.serve = serve

    def request(self, method: str, url: str, **options: Any) -> Answer:
        return Answer(self.serve(url))

    def close(self) -> None:
        pass


def slow(seconds: float) -> Callable[[str], int]:
    """A server that takes so long for each."""

    def serve(url: str) -> int:
        dhaga.sleep(seconds)
        return 200

    return serve


@contextmanager
def loading(serve: Callable[[str], int], *scenarios: Callable[[User], object], timeout: float = 10.0) -> Iterator[Load]:
    with virtual_clock() as clock:
        yield Load(URL, Scenarios(scenarios or [get]), lambda: Session(serve), timeout, clock)


def accounts_are_right(book: Statistics) -> bool:
    ended = book.dropped.total + book.passed.total + book.failed.total + book.cut.total
    return book.under_way == 0 and book.carried + book.due.total == ended


def slower_than(book: Statistics, seconds: float) -> int:
    """Count the requests that took longer."""
    latencies = book.figures().latencies.histogram
    return sum(
        each.count_at_value_iterated_to
        for each in latencies.get_recorded_iterator()
        if each.value_iterated_to > seconds * 1e6
    )


# ---- latencies


def test_latencies_are_those_of_the_server() -> None:
    with loading(slow(0.05)) as load:
        book = conduct(load, OpenLoad(100, 2))
    assert (book.due.total, book.passed.total) == (200, 200)
    figures = book.figures()
    assert [figures.latency(what) for what in ("p0", "p50", "p99", "max")] == pytest.approx([0.05] * 4, rel=0.002)
    assert accounts_are_right(book)


def stalling(began: float, ended: float) -> Callable[[str], int]:
    """A server that answers at once, but for a time in which it answers nobody."""

    def serve(url: str) -> int:
        now = dhaga.current().scheduler.clock()
        dhaga.sleep(ended - now if began <= now < ended else 0.001)
        return 200

    return serve


def test_a_stall_is_seen_by_all_who_were_due_meanwhile() -> None:
    with loading(stalling(3, 4)) as load:
        book = conduct(load, OpenLoad(100, 10))
    assert slower_than(book, 0.005) == pytest.approx(100, abs=1)
    assert book.figures().latency("p99") == pytest.approx(0.9, abs=0.02)
    assert accounts_are_right(book)


def test_who_waits_for_answers_sees_a_stall_once() -> None:
    with loading(stalling(3, 4)) as load:
        book = conduct(load, ClosedLoad(1, 5))
    assert slower_than(book, 0.005) == 1
    assert book.passed.total > 3000


def test_lateness_of_the_tester_is_in_the_latency() -> None:
    def compute() -> None:
        dhaga.sleep(1)
        load.clock.now += 0.5  # type: ignore[attr-defined]  # somebody computes for so long

    with loading(slow(0.01)) as load:
        busy = dhaga.spawn(compute)
        book = conduct(load, OpenLoad(100, 3))
        busy.join()
    assert slower_than(book, 0.02) == pytest.approx(49, abs=2)
    assert book.lateness.value("max") == pytest.approx(0.5, abs=0.02)
    assert accounts_are_right(book)


def test_bars_hold_each_latency_once_and_name_the_percentiles() -> None:
    found = LatencyHistogram()
    for seconds, number in ((0.0011, 60), (0.012, 38), (1.7, 2)):
        for _ in range(number):
            found.note(seconds)
    lines = bars(found).splitlines()[1:]
    rows = [re.fullmatch(r" *(.+?) – +(.+?)  (.{30}) +([\d,]+) +(\S+?%)(?:  (.*))?", line) for line in lines]
    assert all(rows) and len(rows) <= ROWS
    told = {row[1]: (row[3].strip(), row[4], row[5], row[6]) for row in rows if row}
    assert told["1.00 ms"] == ("█" * 30, "60", "60.0%", "p50")
    assert told["10.0 ms"] == ("█" * 19, "38", "38.0%", "p90")
    assert told["1.00 s"] == ("█", "2", "2.00%", "p99")
    assert told["100 ms"] == ("", "0", "0%", None)
    assert sum(int(row[4]) for row in rows if row) == len(found)
    assert bars(LatencyHistogram()) == ""


# ---- accounts


def test_beyond_the_bound_runs_are_dropped_and_count_as_errors() -> None:
    with loading(slow(1.0)) as load:
        book = conduct(load, OpenLoad(100, 2, most=10))
    assert (book.due.total, book.passed.total, book.dropped.total) == (200, 20, 180)
    assert book.figures().errors == 0.9
    assert book.failures["dropped: 10 runs were under way"] == 180
    assert accounts_are_right(book)


def test_who_hangs_is_timed_out_and_is_in_the_latencies() -> None:
    with loading(slow(math.inf), timeout=0.5) as load:
        book = conduct(load, OpenLoad(10, 1))
    assert book.failures == {"timed out": 10}
    assert book.figures().latency("p0") == pytest.approx(0.5, rel=0.002)
    assert accounts_are_right(book)


def test_what_is_under_way_at_the_end_is_awaited_and_then_cut_off() -> None:
    def long(user: User) -> None:
        for _ in range(10):
            user.get()

    with loading(slow(0.3), long, timeout=1.0) as load:
        book = conduct(load, OpenLoad(10, 2.05))
    assert (book.due.total, book.passed.total, book.failed.total) == (21, 1, 0)
    assert book.cut.total == 20
    assert accounts_are_right(book)


def test_the_rate_is_that_of_the_time_and_not_of_what_was_awaited() -> None:
    with loading(slow(1.0)) as load:
        book = conduct(load, OpenLoad(100, 2))
    assert book.passed.total == 200
    assert book.figures().rate == pytest.approx(50, abs=1)


# ---- what fails


def statuses(url: str) -> int:
    return int(url.rpartition("/")[2])


def runs_of(*scenarios: Callable[[User], object]) -> Statistics:
    with loading(statuses, *scenarios) as load:
        return conduct(load, OpenLoad(10, 1))


def test_a_status_fails_a_run_unless_it_is_expected() -> None:
    book = runs_of(lambda user: user.get("/503"))
    assert (book.failed.total, book.failures) == (10, {"HTTP 503": 10})
    assert book.tallies["GET /503"].statuses == {"5xx": 10}
    assert runs_of(lambda user: user.get("/404", expect=404)).passed.total == 10
    assert runs_of(lambda user: user.get("/404", expect=(200, 404))).passed.total == 10
    assert runs_of(lambda user: user.get("/200", expect=404)).failures == {"HTTP 200": 10}


def test_users_who_fail_at_once_keep_nobody_from_running() -> None:
    def refused(url: str) -> int:
        load.clock.now += 0.01  # type: ignore[attr-defined]  # else the end would never come
        raise ConnectionRefusedError(111, "Connection refused")

    with loading(refused) as load:
        book = conduct(load, ClosedLoad(3, 1))
    assert len(load.users) == 3
    assert book.passed.total == 0
    assert book.failures["connection refused"] == pytest.approx(100, abs=5)


# ---- the highest rate


def narrow(places: int, seconds: float) -> Callable[[str], int]:
    """A server that can answer `places / seconds` a second."""
    free = Semaphore(places)

    def serve(url: str) -> int:
        with free:
            dhaga.sleep(seconds)
        return 200

    return serve


def found(serve: Callable[[str], int], bound: str, rate: float | None = None) -> RateSearch:
    told: list[Step] = []
    with loading(serve) as load:
        finder = RateSearch(load, [to_find(bound)], 2.0, told.append)
        finder.find(rate or finder.first_rate())
    assert told == finder.steps
    return finder


@pytest.mark.parametrize("bound", ["p90=50ms", "errors=5%"])
def test_the_highest_rate_is_what_the_server_can_do(bound: str) -> None:
    finder = found(narrow(1, 0.02), bound)
    assert finder.passed is not None and finder.failed is not None
    assert 45 <= finder.passed.rate <= 54
    assert finder.passed.rate < finder.failed.rate <= finder.passed.rate * 1.05
    assert finder.steps[-1] in (finder.passed, finder.failed)
    assert all(not step.passed for step in finder.steps if step.rate > finder.passed.rate)


def test_a_fast_refusal_is_no_success() -> None:
    finder = found(lambda url: 503, "p99=50ms", rate=1)
    assert finder.passed is None
