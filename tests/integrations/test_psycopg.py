"""The wait hook of psycopg (3): installed once, and taken back."""

from __future__ import annotations

import pytest

waiting = pytest.importorskip("psycopg.waiting")

from dhaga.integrations import psycopg  # noqa: E402


def test_install_has_connections_wait_by_poll_and_uninstall_puts_back_what_was_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = object()
    monkeypatch.setattr(waiting, "wait", before)
    psycopg.install()
    psycopg.install()  # once is enough: what was there before is not forgotten
    assert waiting.wait is waiting.wait_poll
    psycopg.uninstall()
    assert waiting.wait is before
    psycopg.uninstall()
    assert waiting.wait is before
