"""``python -m dhaga --version``."""

from __future__ import annotations

import platform

import greenlet
import pytest

import dhaga
from dhaga import __main__ as command
from dhaga._cli import version


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_version_is_one_line_that_names_what_it_runs_on(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([option]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"dhaga {dhaga.__version__}, Python {platform.python_version()} (")
    assert f"greenlet {greenlet.__version__}, tornado " in line and " on " in line


def test_the_poller_of_the_environment_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DHAGA_POLLER", "ioloop")
    command.main(["--version"])
    assert capsys.readouterr().out.rstrip().endswith(", DHAGA_POLLER=ioloop")


@pytest.mark.parametrize(
    ("free_threaded", "is_on", "words"),
    [
        (False, True, ""),
        (True, True, ", free-threaded, interpreter lock on"),
        (True, False, ", free-threaded, interpreter lock off"),
    ],
)
def test_the_state_of_the_lock_is_told_where_it_can_be_off(
    monkeypatch: pytest.MonkeyPatch, free_threaded: bool, is_on: bool, words: str
) -> None:
    monkeypatch.setattr(version, "FREE_THREADED", free_threaded)
    monkeypatch.setattr(version, "lock_is_on", lambda: is_on)
    assert version.describe_lock() == words
