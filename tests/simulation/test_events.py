"""The events of a run: their words, their number, and their hash."""

from __future__ import annotations

from dhaga.simulation._schedule.events import Event, Log, folded
from dhaga.simulation._schedule.members import Member, Members


def test_an_event_in_words_has_the_time_since_the_begin() -> None:
    members = Members()
    members.all = [Member(0, "main code"), Member(1, "worker")]
    assert (
        Event(1001.5, 0, "waits for join", 1).words(members, 1000)
        == "   1.500000  main code waits for join; worker runs"
    )
    assert (
        Event(1001.5, 0, "waits for join", 1, 1001).words(members, 1000)
        == "   1.000000  main code waits for join; worker runs at 1.500000"
    )
    assert Event(1000, 1, "ends").words(members, 1000) == "   0.000000  worker ends"
    assert "member 7" in Event(1000, 7, "ends").words(members, 1000)


def test_the_hash_depends_on_each_event_and_not_on_the_number_kept() -> None:
    def hash_of(*events: tuple[float, int, str, int], keep: int | None = 1) -> str:
        log = Log(keep)
        for event in events:
            log.add(*event)
        assert log.count == len(events)
        return log.hash

    first, second = (1.0, 0, "waits", 1), (2.0, 1, "ends", 0)
    assert hash_of(first, second) == hash_of(first, second, keep=None)
    assert len({hash_of(first), hash_of(second), hash_of(first, second), hash_of(second, first), hash_of()}) == 5


def test_the_number_of_an_fd_does_not_count() -> None:
    one, other = Log(), Log()
    one.add(0.0, 0, "waits for read fd 7", 1)
    other.add(0.0, 0, "waits for read fd 19", 1)
    assert one.hash == other.hash


def event(member: int, what: str, following: int, time: float = 0.0) -> Event:
    return Event(time, member, what, following)


def test_a_loop_of_events_is_folded_to_its_last_turn() -> None:
    turns = [
        event(1, what, following, number) for number in range(5) for what, following in (("waits", 2), ("runs", 1))
    ]
    events = [event(0, "begins", 1), *turns, event(0, "ends", 0)]
    assert [(each.what, each.time, times) for each, times in folded(events)] == [
        ("begins", 0.0, 1),
        ("waits", 4, 5),
        ("runs", 4, 5),
        ("ends", 0.0, 1),
    ]


def test_what_comes_twice_or_differs_is_not_folded() -> None:
    events = [event(1, "waits", 2), event(1, "waits", 2), event(1, "waits", 3), event(2, "waits", 3)]
    assert folded(events) == [(each, 1) for each in events]
    assert folded([]) == []


def test_a_folded_event_says_how_many_times_it_has_come() -> None:
    members = Members()
    members.of_name("poller")
    assert event(0, "waits for sleep", 0).words(members, 0, 7) == (
        "   0.000000  poller waits for sleep; poller runs (7 times)"
    )


def test_what_only_reports_show_changes_no_hash() -> None:
    plain, shown = Log(), Log()
    plain.add(1.0, 0, "brings bytes")
    shown.add(1.0, 0, "brings bytes", shown=("brings ", 5, " bytes"))
    shown.remark(1.0, 0, ("takes ", 5, " bytes"))
    assert plain.hash == shown.hash and plain.count == shown.count == 1
    assert [each.what for each in shown.kept] == ["brings 5 bytes", "takes 5 bytes"]
