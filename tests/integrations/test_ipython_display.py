"""What IPython shows: the table of %dhaga as text and HTML, and dhagas and scopes, with all texts escaped."""

from __future__ import annotations

from typing import Any

import pytest

import dhaga
from dhaga._sync.lock import Lock
from dhaga.debug._dhaga_table import DhagaTable
from dhaga.integrations import _ipython_display as display
from dhaga.integrations import ipython
from dhaga.testing import settle, virtual_clock

NAME = "<b>&\n\x1b[2J"
ESCAPED = "&lt;b&gt;&amp;\\n\\x1b[2J"


def test_the_table_is_text_and_html_and_no_name_is_markup() -> None:
    with virtual_clock():
        lock = Lock()
        with lock:
            waiters = [dhaga.spawn(lock.acquire, name=f"waiter-{n}") for n in range(3)]
            lonely = dhaga.spawn(dhaga.sleep, 5, name=NAME)
            dhaga.sleep(2)
            shown = display.Overview(DhagaTable().table(grouped=True, filter="wait"))
            cut = display.Overview(DhagaTable().table(most=1))
            for each in waiters:
                each.cancel()
            lonely.join()
    first, head, *rows = repr(shown).splitlines()
    assert first == "4 dhagas and main code: 4 waiting, 1 running"
    assert head.split() == ["name", "state", "cpu", "waited", "reason", "on", "scheduler"]
    assert len({row.index("WAITING") for row in rows}) == 1  # aligned
    assert any(row.startswith("3 × waiter-… ") and "<Lock held by main code, 3 parked>" in row for row in rows)
    html = shown._repr_html_()
    assert ESCAPED in html and NAME not in html and "\n" not in html
    assert "&lt;Lock held by main code, 3 parked&gt;" in html
    assert html.count("<tr>") == 1 + len(rows)
    assert repr(cut).endswith("and 4 more") and "and 4 more" in cut._repr_html_()


def test_a_dhaga_and_a_scope_are_tables() -> None:
    with virtual_clock():
        with dhaga.Scope(name=NAME) as scope:
            for n in range(display.MOST_CHILDREN + 2):
                child = scope.spawn(dhaga.sleep, 5, name=f"<{n}>")
            settle()
            of_child, of_scope = display.html_of_dhaga(child), display.html_of_scope(scope)
        ended, empty = display.html_of_dhaga(child), display.html_of_scope(scope)
    assert "&lt;51&gt;" in of_child and "WAITING" in of_child and "sleep for 0 ms" in of_child
    assert of_scope.count("<tr>") == 1 + display.MOST_CHILDREN and "and 2 more" in of_scope
    assert ESCAPED in of_scope and NAME not in of_scope
    assert "DONE" in ended and "waits for" not in ended
    assert "<table>" not in empty and "ended" in empty


def test_loading_says_what_it_did_and_unloading_undoes_it(capsys: pytest.CaptureFixture[str]) -> None:
    interactive = pytest.importorskip("IPython.core.interactiveshell")
    config = pytest.importorskip("traitlets.config").Config({"HistoryManager": {"enabled": False}})
    shell: Any = interactive.InteractiveShell(config=config)
    html = shell.display_formatter.formatters["text/html"]
    ipython.load(shell)
    ipython.load(shell)
    assert capsys.readouterr().out == f"{ipython.LOADED_IN_TERMINAL}\n"
    assert isinstance(shell.run_line_magic("dhaga", ""), display.Overview)
    with virtual_clock():
        scope = dhaga.Scope(name="shown")
        assert html(scope) == "<div>&lt;Scope shown not entered&gt;</div>"
        ipython.unload(shell)
        assert html(scope) is None
    assert shell.find_line_magic("dhaga") is None
