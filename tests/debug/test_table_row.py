"""One row of the table: what is read of a dhaga, main code or OS thread."""

from __future__ import annotations

import dhaga
from dhaga._sync.event import Event
from dhaga.debug._cpu_share import Share
from dhaga.debug._table_row import all_columns, row_of, stem
from dhaga.testing import settle, virtual_clock


def test_a_row_has_the_cheap_columns_and_all_columns_the_others() -> None:
    with virtual_clock():
        event = Event()
        waiter = dhaga.spawn(event.wait, name="Patient")
        dhaga.sleep(2)
        row = row_of(waiter, "s", {waiter.ident: Share(0.5, 0.25)})
        shown = all_columns(row)
        event.set()
        waiter.join()
    assert (row.name, row.state, row.reason, row.share.held) == ("Patient", "WAITING", "event.wait", 0.5)
    assert (shown["held"], shown["share"]) == (0.5, 0.25)
    assert row.text() == "patient waiting event.wait s"
    assert (shown["kind"], shown["seconds"], shown["waits_on"], shown["held_by"]) == (
        *("dhaga", 2, "<Event unset, 1 parked>", ()),
    )


def test_what_is_not_parked_has_no_reason_and_no_time() -> None:
    with virtual_clock():
        new = dhaga.spawn(dhaga.sleep, 0)
        row = row_of(new, "s", {})
        assert (row.state, row.reason, all_columns(row)["seconds"]) == ("NEW", "", None)
        settle()
        new.join()


def test_a_stem_is_without_the_number_at_its_end() -> None:
    assert [stem(each) for each in ("read fd 7", "worker-12", "sleep", "7")] == ["read fd", "worker-", "sleep", ""]
