"""The report as text and as JSON, and the way that it names."""

from __future__ import annotations

import pytest

from dhaga._cli.migrate.files import Unread
from dhaga._cli.migrate.report import Finding, Report
from tests.kit.migrations import module


def report(text: str, *unread: Unread) -> Report:
    return Report(1, [Finding("a.py", use) for use in module(text).uses], list(unread))


def test_each_line_tells_the_place_the_use_and_its_counterpart() -> None:
    lines = list(report("import gevent\nfrom gevent import *\ngevent.spawn(f)\ngevent.spawn(g)\n").lines())
    assert lines == [
        "a.py:1: import gevent -> dhaga",
        "a.py:2: import gevent (all of its names) -> dhaga",
        "a.py:3: gevent.spawn -> dhaga.spawn",
        "a.py:4: gevent.spawn -> dhaga.spawn",
        "",
        "What behaves differently under Dhaga's own names:",
        "  gevent.spawn: A program's end joins a dhaga, unless it is spawned with daemon=True; greenlets end with the "
        "main code. An error goes to dhaga.excepthook unless result() is called. Context variables are "
        "inherited.",
        "",
        "files read: 1; uses, in files: gevent 4 in 1",
        "No change is needed: python -m dhaga --as gevent program.py runs it unchanged.",
    ]


def test_the_summary_counts_the_files_of_options_and_imports_together() -> None:
    assert report('import gevent\nworker_class = "gevent"\n').summary() == (
        "files read: 1; uses, in files: gevent 2 in 1"
    )
    assert report('worker_class = "gevent"\n').summary() == "files read: 1; uses, in files: gevent 1 in 1"


def test_the_way_names_what_as_lacks() -> None:
    lines = list(report("import gevent.ares\nimport eventlet\n").route())
    assert lines == [
        "Under python -m dhaga --as eventlet --as gevent program.py all uses run unchanged except 1:",
        "  a.py:1: there is no gevent.ares",
    ]
    assert list(report("import greenlet\nx = greenlet.greenlet(f)\n").route()) == [
        "a.py:2: greenlet.greenlet: a program's own greenlet cannot switch beside the scheduler's"
    ]
    assert list(report("import threading\n").route()) == [
        "Nothing of gevent or eventlet is left: python -m dhaga program.py runs it."
    ]
    assert list(report("x = 1\n").route()) == []


@pytest.mark.parametrize("rewritten", [False, True])
@pytest.mark.parametrize("text", ["import gevent\n", "import gevent.ares\nimport eventlet\n", "import threading\n"])
def test_the_way_promises_nothing_for_files_that_were_not_read(text: str, rewritten: bool) -> None:
    promise = next(report(text, Unread("b.py", "Permission denied")).route(rewritten))
    assert ", as far as files were read" in promise
    assert promise.replace(", as far as files were read", "") == next(report(text).route(rewritten))


def test_json_has_a_row_for_each_use_and_what_was_not_read() -> None:
    data = report("import gevent\n", Unread("b.py", "Permission denied")).as_json()
    (row,) = data["findings"]
    assert row == {
        "file": "a.py",
        "line": 1,
        "column": 8,
        "kind": "import",
        "name": "gevent",
        "note": "",
        "counterpart": "dhaga",
        "differs": "",
        "refused_by_as": "",
        "rewritten": False,
        "why": "",
    }
    assert data["unread"] == [{"file": "b.py", "why": "Permission denied"}]
    assert data["files"] == 1 and "--as gevent" in data["route"][0] and data["diff"] == ""


def test_what_a_rewriting_leaves_is_told_with_the_reason() -> None:
    uses = module("import gevent\ngevent.idle()\n").uses
    found = Report(1, [Finding("a.py", uses[0], True), Finding("a.py", uses[1], False, "so")], [])
    assert list(found.lines_of_rewriting()) == [
        "a.py:2: gevent.idle is left: so",
        "changed: 1 of 2 uses of gevent and eventlet",
        "The rest needs no change: python -m dhaga --as gevent program.py runs it unchanged.",
    ]
