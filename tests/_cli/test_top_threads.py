"""The line of top with the CPU shares of OS threads."""

from __future__ import annotations

from collections.abc import Mapping

from dhaga._cli.top_threads import ThreadShares


def lines_after(*answers: tuple[float, Mapping[str, float | None]]) -> list[str]:
    shares = ThreadShares()
    for time, threads in answers:
        shares.update({"time": time, "threads": list(threads.items())})
    return [line.plain for line in shares.draw()]


def test_shares_are_of_the_time_since_the_last_answer_and_the_busiest_comes_first() -> None:
    first, second = {"idle": 5.0, "busy": 1.0}, {"idle": 5.1, "busy": 2.9}
    assert lines_after((10.0, first)) == []
    assert lines_after((10.0, first), (12.0, second)) == ["cpu of OS threads: busy 95%, idle 5%"]
    assert lines_after((10.0, first), (12.0, second), (12.0, second)) == ["cpu of OS threads: busy 95%, idle 5%"]
    assert lines_after((10.0, first), (12.0, second), (13.0, second)) == ["cpu of OS threads: busy 0%, idle 0%"]


def test_one_thread_and_threads_that_are_new_gone_or_not_measured_are_left_out() -> None:
    assert lines_after((1.0, {"one": 0.0}), (2.0, {"one": 1.0})) == []
    before: dict[str, float | None] = {"a": 0.0, "b": 0.0, "gone": 0.0, "blind": None}
    after: dict[str, float | None] = {"a": 0.5, "b": 0.25, "new": 9.0, "blind": None}
    assert lines_after((1.0, before), (2.0, after)) == ["cpu of OS threads: a 50%, b 25%"]


def test_threads_of_one_name_are_added_up() -> None:
    shares = ThreadShares()
    shares.update({"time": 1.0, "threads": [["twin", 1.0], ["twin", 5.0]]})
    shares.update({"time": 2.0, "threads": [["twin", 5.25], ["twin", 1.5]]})
    assert [line.plain for line in shares.draw()] == ["cpu of OS threads: 2 × twin 75%"]
    shares.update({"time": 3.0, "threads": [["twin", 5.25], ["other", 0.0]]})  # one has ended
    assert shares.draw() == []
    shares.update({"time": 4.0, "threads": [["twin", 5.5], ["other", 0.0]]})
    assert [line.plain for line in shares.draw()] == ["cpu of OS threads: twin 25%, other 0%"]


def test_a_name_cannot_command_the_terminal() -> None:
    assert lines_after((1.0, {"a\x1b[2J": 0.0, "b": 0.0}), (2.0, {"a\x1b[2J": 1.0, "b": 0.0})) == [
        "cpu of OS threads: a?[2J 100%, b 0%"
    ]
