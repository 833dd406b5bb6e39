"""Members: numbers in the order of the first steps."""

from __future__ import annotations

from types import SimpleNamespace

from dhaga.simulation._schedule.members import Members


def test_members_are_numbered_by_their_first_step_and_calls_of_the_loop_share_one() -> None:
    members = Members()
    one, other = SimpleNamespace(ident=9, name="one"), SimpleNamespace(ident=4, name="other")
    assert [members.of(each).number for each in (one, other, one, object(), object())] == [0, 1, 0, 2, 2]
    assert [members.named(number) for number in range(4)] == ["one", "other", "the event loop", "member 3"]
    assert repr(members.of(one)) == "<Member 0 one>"


def test_members_of_one_name_are_told_apart() -> None:
    members = Members()
    for ident in range(3):
        members.of(SimpleNamespace(ident=ident, name="worker"))
    assert [member.name for member in members.all] == ["worker", "worker (2)", "worker (3)"]
