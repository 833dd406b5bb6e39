"""The events of a run: their words, their number, and their hash."""

from __future__ import annotations

from dhaga.simulation._events import Event, Log
from dhaga.simulation._members import Member, Members


def test_an_event_in_words_has_the_time_since_the_begin() -> None:
    members = Members()
    members.all = [Member(0, "main code"), Member(1, "worker")]
    assert (
        Event(1001.5, 0, "waits for join", 1).words(members, 1000)
        == "   1.500000  main code waits for join; worker runs"
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
