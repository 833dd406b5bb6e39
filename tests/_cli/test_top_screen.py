"""The screen of top: filter, sorts, choice, dumps, cancels."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from dhaga._cli.top_screen import Screen
from dhaga._cli.top_table import wait_target
from dhaga.debug._remote.client import printable


class Process:
    """Stands for a process that is asked."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)
        self.asked: list[Any] = []
        self.last_first = False
        self.group: list[str] = []
        self.time = 0.0
        self.threads: list[tuple[str, float | None]] = []
        self.blocks: list[tuple[int, str, str]] = []

    def ask(self, what: str, **arguments: Any) -> dict[str, Any]:
        if what == "history":
            return {"samples": [], "preempted": []}
        self.asked.append((what, *arguments.values()))
        if what == "cancel":
            return {"name": self.names[arguments["ident"] - 1], "cancelled": True}
        if what == "dump":
            return {"text": "\n".join(f"line {number}" for number in range(50))}
        rows = [row(name, number) for number, name in enumerate(self.names, 1) if arguments["filter"] in name]
        if self.last_first:
            rows.reverse()
        if self.group and arguments["grouped"]:
            members = [row | {"member": True} for row in rows if row["name"] in self.group]
            is_open = "key" in arguments["opened"]
            head = members[0] | {"kind": "group", "ident": 0, "key": "key", "count": len(members), "open": is_open}
            rows = [row for row in rows if row["name"] not in self.group]
            rows = [head | {"name": "g…"}, *(members if is_open else []), *rows]
        counts = {"total": len(self.names), "matching": len(rows), "hidden": 0, "states": {"WAITING": len(self.names)}}
        counts |= {"time": self.time, "threads": self.threads}
        return {
            "pid": 7,
            "measured": True,
            "cycles": [],
            "blocks": self.blocks,
            "reasons": [["sleep", 3]],
            "rows": rows,
            **counts,
        } | {"headline": f"{len(self.names)} dhagas: {len(self.names)} waiting"}


def row(name: str, ident: int) -> dict[str, Any]:
    kind = "main code" if name == "main" else "dhaga"
    known = {"ident": ident, "name": name, "kind": kind, "scheduler": "S", "state": "WAITING", "reason": "sleep"}
    return known | {"seconds": 1.0, "held": 0.5, "share": 0.25, "waits_on": None, "held_by": []}


def screen_of(*names: str) -> Screen:
    screen = Screen(Process(*names), "", "held")
    screen.refresh()
    return screen


def press(screen: Screen, *pressed: str) -> None:
    for key in pressed:
        screen.press(key)


def drawn(screen: Screen, width: int = 100) -> list[str]:
    screen.width = width
    console = Console(width=width, height=screen.height, file=io.StringIO())
    with console.capture() as capture:
        console.print(screen.draw())
    return [line.rstrip() for line in capture.get().splitlines()]


def asked(screen: Screen) -> list[Any]:
    assert isinstance(screen.client, Process)
    return screen.client.asked


def test_it_shows_counts_rows_and_keys() -> None:
    lines = drawn(screen_of("a", "b"))
    assert lines[0] == "2 dhagas: 2 waiting  process 7"
    assert lines[1] == "wait for 3 sleep"
    assert lines[2].split() == ["runnable", "…", "parked", "…", "lag", "…"]
    assert lines[3].split() == ["ident", "name", "state", "held", "▾", "cpu", "waited", "reason", "on"]
    assert lines[4].split() == ["1", "a", "WAITING", "50%", "25%", "1.0", "s", "sleep"]
    assert lines[-1].startswith("q quit")


def test_the_scheduler_is_a_column_only_if_there_are_several() -> None:
    screen = screen_of("a", "b")
    screen.rows[1]["scheduler"] = "T"
    lines = drawn(screen)
    assert lines[3].split()[-1] == "scheduler"
    assert [line.split()[-1] for line in lines[4:6]] == ["S", "T"]
    screen.height = 6  # one row fits: the columns stay those of all
    assert drawn(screen)[3].split()[-1] == "scheduler"


def test_who_blocks_is_named_above_the_table_and_an_unknown_share_is_empty() -> None:
    process = Process("a")
    process.blocks = [(1, "a", "holds S for 90% of the time")]
    screen = Screen(process, "", "held")
    screen.refresh()
    screen.rows[0]["share"] = None
    lines = drawn(screen)
    assert lines[2] == "a holds S for 90% of the time"
    assert lines[5].split() == ["1", "a", "WAITING", "50%", "1.0", "s", "sleep"]


def test_the_cpu_of_several_threads_is_a_line_of_the_head() -> None:
    process = Process("a")
    process.threads = [("S", 1.0), ("T", 1.0)]
    screen = Screen(process, "", "held")
    screen.refresh()
    process.time, process.threads = 2.0, [("S", 1.5), ("T", 3.0)]
    screen.refresh()
    screen.refresh()
    assert drawn(screen)[2] == "cpu of OS threads: T 100%, S 25%"


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        ("<Lock held by b, 1 parked>", "<Lock held by b, 1 parked>"),
        ("<Queue>", "<Queue>, held by b"),
        (None, "held by b"),
    ],
)
def test_a_holder_is_named_once(target: str | None, shown: str) -> None:
    assert wait_target({"waits_on": target, "held_by": ["b"]}) == shown


def test_the_filter_counts_as_it_is_typed() -> None:
    screen = screen_of("alpha", "beta", "gamma")
    press(screen, "/", "m", "q", "backspace", "m")
    assert [each[1] for each in asked(screen)] == ["", "m", "mq", "m", "mm"]
    assert [each["name"] for each in screen.rows] == ["gamma"]
    assert drawn(screen)[-1].startswith("/mm")
    press(screen, "enter", "escape")
    assert (screen.filter, len(screen.rows)) == ("", 3)
    press(screen, "/", "x", "escape")
    assert screen.filter == ""
    assert not screen.finished


def test_sorts_follow_each_other() -> None:
    screen = screen_of("a")
    heads = []
    for _ in range(7):
        heads += [head.split()[-1] for head in [drawn(screen)[3].partition(" ▾")[0]]]
        press(screen, "s")
    assert [each[2] for each in asked(screen)] == ["held", "share", "waited", "name", "state", "reason", "age", "held"]
    assert heads == ["held", "cpu", "waited", "name", "state", "reason", "ident"]


def test_the_chosen_one_stays_chosen_when_the_order_changes_and_is_never_off_the_screen() -> None:
    screen = screen_of(*map(str, range(100)))
    screen.height = 20
    press(screen, "down", "down", "up", "j", "k")
    assert screen.name() == "1"
    assert isinstance(screen.client, Process)
    press(screen, "end", "up", "page up")
    assert screen.name() == "83"
    assert any("83" in line for line in drawn(screen))
    assert len(drawn(screen)) <= 20
    press(screen, "home", "up", "page down", "page down", "unknown")
    assert screen.name() == "30"
    screen.client.names = screen.client.names[:10]
    screen.refresh()
    assert screen.name() == "0"
    screen.client.names.clear()
    screen.refresh()
    press(screen, "down", "enter", "x", "y")
    assert screen.chosen is None and {each[0] for each in asked(screen)} == {"table"}


def test_until_the_user_chooses_a_row_and_after_home_the_first_is_marked_and_on_the_screen() -> None:
    screen = screen_of(*map(str, range(100)))
    screen.height = 20
    client = screen.client
    assert isinstance(client, Process)
    for pressed, last_first, first in (((), True, "99"), (("down", "home"), False, "0")):
        press(screen, *pressed)
        client.last_first = last_first  # the first row becomes the last one
        screen.refresh()
        assert screen.name() == first and f" {first} " in drawn(screen)[4]
    press(screen, "enter")
    assert asked(screen)[-1] == ("dump", 1)


def test_a_dump_of_the_chosen_one_can_be_leafed_through() -> None:
    screen = screen_of("a", "b")
    screen.height = 10
    press(screen, "down", "enter")
    assert asked(screen)[-1] == ("dump", 2)
    assert drawn(screen)[0] == "line 0"
    press(screen, "down", "page down", "up", "end", "end")
    assert drawn(screen)[-2:] == ["line 49", "↑↓ scroll  escape back  q quit"]
    press(screen, "home", "escape")
    assert drawn(screen)[0].endswith("process 7")


def test_a_cancel_is_confirmed_and_meets_the_one_that_was_asked_about() -> None:
    screen = screen_of("a", "b", "main")
    press(screen, "x", "n")
    press(screen, "x", "escape")
    assert [each for each in asked(screen) if each[0] == "cancel"] == []
    press(screen, "x")
    assert drawn(screen)[-1] == "cancel a? y: yes"
    assert isinstance(screen.client, Process)
    screen.answer["rows"].reverse()
    screen.chosen = 2  # as when a has gone meanwhile, and another row is marked
    press(screen, "y")
    assert [each for each in asked(screen) if each[0] == "cancel"] == [("cancel", 1)]
    assert drawn(screen)[-1] == "a is cancelled"
    screen.chosen = 3
    press(screen, "x")
    assert drawn(screen)[-1] == "main is not a dhaga and cannot be cancelled"


def test_a_group_is_unfolded_chosen_and_not_cancelled() -> None:
    screen = screen_of("a", "g1", "g2", "z")
    assert isinstance(screen.client, Process)
    screen.client.group = ["g1", "g2"]
    screen.refresh()
    assert drawn(screen)[4].split()[:4] == ["▸", "2", "×", "g…"]
    press(screen, "x")
    assert drawn(screen)[-1] == "unfold the group by enter, and choose one dhaga"
    press(screen, "enter")
    assert [line.split()[:2] for line in drawn(screen)[4:8]] == [["▾", "2"], ["2", "g1"], ["3", "g2"], ["1", "a"]]
    assert "  g1" in drawn(screen)[5]
    press(screen, "down", "x", "y")
    assert ("cancel", 2) in asked(screen)
    press(screen, "up", "enter")
    assert [line.split()[0] for line in drawn(screen)[4:7]] == ["▸", "1", "4"]
    press(screen, "g")
    assert [line.split()[0] for line in drawn(screen)[4:8]] == ["1", "2", "3", "4"]


def test_a_narrow_terminal_has_one_column_for_a_wait() -> None:
    screen = screen_of("a")
    screen.rows[0]["waits_on"] = "<Lock held by b>"
    screen.height = 24
    lines = drawn(screen, 80)
    assert lines[3].split()[-1] == "reason"
    assert lines[4].endswith("sleep <Lock held by b>")
    assert max(map(len, lines)) <= 80 and len(lines[-1]) > 60


def test_q_quits_from_the_table_and_from_a_dump() -> None:
    for pressed in (["q"], ["enter", "q"]):
        screen = screen_of("a")
        press(screen, *pressed)
        assert screen.finished


def test_names_cannot_command_the_terminal() -> None:
    screen = screen_of("\x1b[2J\x07[red]x[/red]\n")
    assert "?[2J?[red]x[/red]?" in "\n".join(drawn(screen, 300))
    assert printable("ä→\x9b") == "ä→?"
