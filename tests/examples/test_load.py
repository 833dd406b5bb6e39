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
from examples.load import __main__ as command
from examples.load import statistics
from examples.load.bounds import to_find
from examples.load.latency_bars import ROWS, bars
from examples.load.latency_histogram import LatencyHistogram
from examples.load.load import Load, NoRequestMade
from examples.load.open_loop import times
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
        now = dhaga.current().scheduler._clock()
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


def test_bars_get_finer_where_latencies_are_near_each_other() -> None:
    found = LatencyHistogram()
    for microseconds in range(2_000, 4_000, 10):
        found.note(microseconds / 1e6)
    assert [line.split(" –")[0].strip() for line in bars(found).splitlines()[1:]] == ["2.00 ms", "2.50 ms", "3.00 ms"]


def test_how_much_of_a_test_is_over_is_known_meanwhile() -> None:
    shares: list[float] = []

    def visit(user: User) -> None:
        shares.append(load.share)
        user.get()

    with loading(slow(0), visit) as load:
        assert load.share == 0
        conduct(load, OpenLoad(1, 3, ramp=1))
        assert load.share == 1
    assert shares[0] < 0.5 < shares[-1] < 1


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


def test_users_come_within_the_ramp_which_is_not_measured() -> None:
    begun: list[float] = []

    def visit(user: User) -> None:
        if user.number > len(begun):
            begun.append(load.clock())
        user.get()

    with loading(slow(0.1), visit) as load:
        book = conduct(load, ClosedLoad(10, seconds=5, ramp=2, pause=0.4))
    assert begun == pytest.approx([0.2 * number for number in range(10)])
    assert book.figures().rate == pytest.approx(20, abs=0.5)
    assert accounts_are_right(book)


def test_the_rate_grows_within_the_ramp() -> None:
    due = list(times(100, 1, ramp=2))
    assert len([each for each in due if each < 1]) == pytest.approx(25, abs=1)
    assert len([each for each in due if each < 2]) == pytest.approx(100, abs=1)
    assert len(due) == 200
    assert due == sorted(due)
    with loading(slow(0.1)) as load:
        book = conduct(load, OpenLoad(100, 1, ramp=2))
    assert book.due.total == 100
    assert book.carried == pytest.approx(10, abs=1)
    assert accounts_are_right(book)


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


def test_checks_and_errors_fail_a_run_by_their_message_once() -> None:
    def checks(user: User) -> None:
        assert user.get("/200").status_code == 201, "not created"

    def breaks(user: User) -> None:
        user.get("/500")
        raise KeyError("basket")

    assert runs_of(checks).failures == {"check failed: not created": 10}
    assert runs_of(breaks).failures == {"HTTP 500": 10}


def test_what_a_scenario_swallows_fails_its_run_all_the_same() -> None:
    def refused(url: str) -> int:
        raise ConnectionRefusedError(111, "Connection refused")

    def tries(user: User) -> None:
        with pytest.raises(ConnectionRefusedError):
            user.get()

    with loading(refused, tries) as load:
        assert conduct(load, OpenLoad(10, 1)).failures == {"connection refused": 10}


def test_users_who_fail_at_once_keep_nobody_from_running() -> None:
    def refused(url: str) -> int:
        load.clock.now += 0.01  # type: ignore[attr-defined]  # else the end would never come
        raise ConnectionRefusedError(111, "Connection refused")

    with loading(refused) as load:
        book = conduct(load, ClosedLoad(3, 1))
    assert len(load.users) == 3
    assert book.passed.total == 0
    assert book.failures["connection refused"] == pytest.approx(100, abs=5)


def test_a_scenario_without_a_request_is_refused() -> None:
    with loading(slow(0), lambda user: None) as load, pytest.raises(NoRequestMade, match="made no request"):
        conduct(load, ClosedLoad(5, 1))


def test_steps_and_names_have_tallies_of_their_own() -> None:
    def buy(user: User) -> None:
        with user.step("check out"):
            user.get("/pay?order=7")
            user.get("/done", name="thanks")

    with loading(slow(0.1), buy) as load:
        book = conduct(load, OpenLoad(10, 1))
    tallies = book.tallies
    assert sorted(tallies) == ["GET /pay", "check out", "thanks"]
    means = [tallies[name].latencies.value("mean") for name in sorted(tallies)]
    assert means == pytest.approx([0.1, 0.2, 0.1])
    assert book.figures().latency("max") == pytest.approx(0.1, rel=0.002)  # a step is no request


def test_a_step_may_hold_something_else_than_requests() -> None:
    def query(user: User) -> None:
        for name in ("first", "second"):
            with user.step(name):
                user.sleep(0.1)

    with loading(slow(0), query) as load:
        tallies = conduct(load, OpenLoad(10, 1)).tallies
    assert [tallies[name].latencies.value("max") for name in ("first", "second")] == pytest.approx([0.1, 0.1], rel=0.01)


def test_a_step_fails_by_what_is_in_it() -> None:
    def buy(user: User) -> None:
        user.get("/500")
        with user.step("fine"):
            user.get("/200")
        with user.step("bad"):
            user.get("/404")
        with user.step("checked"):
            raise AssertionError("too dear")

    book = runs_of(buy)
    assert {name: book.tallies[name].failed.total for name in ("fine", "bad", "checked")} == {
        "fine": 0,
        "bad": 10,
        "checked": 10,
    }
    assert book.failures == {"HTTP 500": 10}


def test_too_many_names_share_a_tally() -> None:
    book = runs_of(lambda user: [user.get(f"/{number}", expect=range(600)) for number in range(200, 320)])
    assert len(book.tallies) == statistics.MOST + 1
    assert book.tallies[statistics.OTHERS].done.total == 10 * 20


def test_scenarios_are_chosen_by_their_weights() -> None:
    scenarios = Scenarios([get, lambda user: user.post()], [9, 1])
    chosen = [scenarios.choose() for _ in range(1000)]
    assert chosen.count(get) == pytest.approx(900, abs=40)


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


def test_steps_are_long_enough_for_the_percentile() -> None:
    finder = found(narrow(1, 0.1), "p90=150ms", rate=80)
    assert finder.passed is not None
    assert finder.passed.rate == pytest.approx(10, rel=0.06)
    assert all(step.rate * step.seconds * 0.1 >= 10 - 1e-9 and step.seconds >= 2 for step in finder.steps)
    assert {step.seconds for step in finder.steps if step.rate > 50} == {2.0}


def test_a_server_that_takes_its_time_is_not_behind() -> None:
    finder = found(narrow(12, 0.25), "errors=10%", rate=10)
    assert finder.passed is not None
    assert 44 <= finder.passed.rate <= 52


def test_nothing_is_found_where_the_bound_never_holds() -> None:
    finder = found(slow(0.2), "p50=100ms", rate=4)
    assert finder.passed is None
    assert [step.rate for step in finder.steps] == [4, 4, 2, 2, 1, 1]


def test_a_fast_refusal_is_no_success() -> None:
    finder = found(lambda url: 503, "p99=50ms", rate=1)
    assert finder.passed is None


def test_the_highest_rate_is_told_with_its_steps() -> None:
    with loading(narrow(1, 0.1)) as load:
        finder = RateSearch(load, [to_find("p90=150ms")], 2.0, lambda step: None)
        outcome = command.find(finder, 20)
    assert finder.passed is not None and finder.failed is not None
    assert outcome.status == 0
    assert outcome.figures["found"] == finder.passed.rate
    assert [step["passed"] for step in outcome.figures["steps"]] == [step.passed for step in finder.steps]
    assert f"found: {finder.passed.rate:.4g} runs a second" in outcome.text
    assert str(finder.passed) in outcome.text and str(finder.failed) in outcome.text
    with loading(slow(0.2)) as load:
        outcome = command.find(RateSearch(load, [to_find("p50=100ms")], 2.0, lambda step: None), 2)
    assert (outcome.status, outcome.figures["found"]) == (1, None)
    assert "none: not even the lowest rate that was tried" in outcome.text
