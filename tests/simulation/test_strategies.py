"""The strategies: what each chooses, and how users name them."""

from __future__ import annotations

import random

import pytest

from dhaga.simulation import FIFO, PCT, Exhaustive, Mixed, Random
from dhaga.simulation._schedule.members import Member
from dhaga.simulation._schedule.strategies import LONGEST_STRETCH, Chooser, Strategy, strategy_of


def members(count: int, chooser: Chooser) -> list[Member]:
    found = [Member(number, f"thread {number}") for number in range(count)]
    for member in found:
        chooser.became_ready(member)
    return found


def chooser_of(strategy: Strategy, seed: int = 0) -> Chooser:
    return strategy.chooser(random.Random(seed))


def test_fifo_takes_the_first_and_preempts_only_a_long_stretch() -> None:
    chooser = chooser_of(FIFO())
    first, *rest = members(3, chooser)
    assert chooser.next_of(first, rest) == 0
    assert chooser.points_left == LONGEST_STRETCH
    assert chooser.at_point(first, rest) == 0 and chooser.at_point(first, []) is None


def test_random_takes_any_and_preempts_at_its_rate() -> None:
    chooser = chooser_of(Random(0.25))
    running, *ready = members(4, chooser)
    assert {chooser.next_of(running, ready) for _ in range(50)} == {0, 1, 2}
    gaps = []
    for _ in range(1000):
        gaps.append(chooser.points_left)
        assert chooser.at_point(running, ready) in (0, 1, 2)
    assert 3.5 < sum(gaps) / len(gaps) < 4.5


@pytest.mark.parametrize(("rate", "gap"), [(0, LONGEST_STRETCH), (1, 1)])
def test_random_at_the_bounds_of_its_rate(rate: float, gap: int) -> None:
    assert chooser_of(Random(rate)).points_left == gap


def test_random_draws_its_rate_by_the_seed() -> None:
    rates = {chooser_of(Random(), seed).rate for seed in range(10)}  # type: ignore[attr-defined]
    assert len(rates) == 10 and all(1 / 32 <= rate <= 1 / 2 for rate in rates)


def test_pct_runs_the_highest_priority_until_a_change() -> None:
    chooser = chooser_of(PCT(depth=2, length=1))
    chooser.changes = {7: -1}  # type: ignore[attr-defined]
    chooser.plan()  # type: ignore[attr-defined]
    ready = members(3, chooser)
    best = chooser.next_of(ready[0], ready)
    running = ready.pop(best)
    assert all(running.priority > member.priority for member in ready)  # type: ignore[operator]
    asked = []
    for point in range(2, 10):
        chooser.points_left -= 1
        if chooser.points_left <= 0:
            asked.append((point, chooser.at_point(running, ready) is not None))
    assert (7, True) in asked and running.priority == -1


def test_pct_asks_at_the_next_point_after_a_wake() -> None:
    chooser = chooser_of(PCT(1))
    running, woken = members(2, chooser)
    running.priority, woken.priority = 0.1, 0.9
    chooser.became_ready(woken)
    assert chooser.points_left == 1
    chooser.points_left -= 1
    assert chooser.at_point(running, [woken]) == 0


def test_pct_lets_others_run_past_a_member_that_yields_or_never_parks() -> None:
    chooser = chooser_of(PCT(1))
    running, other = members(2, chooser)
    chooser.has_yielded(running)
    assert chooser.next_of(running, [running, other]) == 1
    running.priority = 2.0
    switched = []
    for _ in range(LONGEST_STRETCH + 10):
        chooser.points_left -= 1
        if chooser.points_left <= 0:
            switched.append(chooser.at_point(running, [other]))
    assert 0 in switched


def test_a_strategy_for_a_length_keeps_a_given_one() -> None:
    assert str(PCT(3).for_length(40)) == "pct:3:40" and str(PCT(3, 9).for_length(40)) == "pct:3:9"
    assert str(Mixed().for_length(40)) == "mixed:40" and FIFO().for_length(40) == FIFO()


@pytest.mark.parametrize(
    "name", ["fifo", "random", "random:0.1", "pct:3", "pct:3:500", "mixed", "mixed:40", "exhaustive:2"]
)
def test_a_name_and_its_strategy_are_the_same(name: str) -> None:
    assert str(strategy_of(name)) == name


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("pict", "there is no strategy 'pict'"),
        ("fifo:1", "there is no strategy 'fifo:1'"),
        ("pct:x", "the parameters of a strategy are numbers"),
        ("pct:0", "the depth of PCT is a whole number from 1, and not 0"),
        ("random:2", "the rate of preemptions is a number from 0 to 1, and not 2.0"),
        ("mixed:0", "the length of a program is a whole number from 1, and not 0"),
        ("exhaustive:-1", "the number of preemptions is a whole number from 0, and not -1"),
    ],
)
def test_a_bad_name_is_an_error_that_says_what_is_right(name: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        strategy_of(name)


def test_pct_needs_a_depth() -> None:
    with pytest.raises(ValueError, match="the depth of PCT is a whole number from 1, and not None"):
        PCT(None)


def test_a_strategy_of_another_type_is_an_error() -> None:
    with pytest.raises(
        TypeError, match=r"a strategy is an object of dhaga.simulation, or a name such as pct:3, and not 3"
    ):
        strategy_of(3)


def test_an_exhaustive_strategy_has_no_chooser_for_a_seed() -> None:
    with pytest.raises(ValueError, match=r"an exhaustive strategy needs dhaga.simulation.search\(\)"):
        chooser_of(Exhaustive())
