"""Limits: what they refuse to be, and what a server says where a client goes beyond them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import dhaga
from dhaga._kernel.process import preemption_watcher
from dhaga._kernel.run import preemption
from dhaga.http.limits import Limits
from tests._kernel.test_preemption_strikes import needs_events
from tests.http.wire import TEXT, Start, answer, get, hello, post

NUMBERS = ("line", "head", "fields")


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Limits)])
@pytest.mark.parametrize("value", [0, -1])
def test_a_limit_is_above_zero(name: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"{name} must be above 0"):
        Limits(**{name: value})


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Limits)])
def test_only_heads_need_a_bound(name: str) -> None:
    if name in NUMBERS:
        with pytest.raises(ValueError, match=f"{name} must be a number"):
            Limits(**{name: None})
    else:
        assert getattr(Limits(**{name: None}), name) is None


@pytest.mark.parametrize(
    ("limits", "data", "status"),
    [
        ({"line": 100}, get("/" + "a" * 100), "414 "),
        ({"line": 100}, get("/", "X: " + "a" * 100), "431 "),
        ({"fields": 3}, get("/", "A: 1", "B: 2", "C: 3"), "431 "),
        ({"body": 3}, post(b"four"), "413 "),
        ({"body": 4}, post(b"four"), "200 "),
    ],
)
def test_beyond_a_limit_the_status_names_it(limits: dict[str, Any], data: bytes, status: str) -> None:
    assert answer(hello, data, limits=Limits(**limits)).status.startswith(status)


def computing(environ: dict[str, Any], start: Start) -> list[bytes]:
    while True:
        pass


def waiting(environ: dict[str, Any], start: Start) -> list[bytes]:
    dhaga.sleep(60)
    return []


@pytest.fixture
def preemption_on(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(preemption, "deadlines_strike", preemption.deadlines_strike)
    preemption_watcher.turn_on(0.002)
    yield
    preemption_watcher.turn_off()


@pytest.mark.parametrize("app", [waiting, pytest.param(computing, marks=needs_events)])
@pytest.mark.usefixtures("preemption_on")
def test_an_app_that_takes_too_long_is_ended_with_its_stack_in_the_log(
    app: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    got = answer(app, get("/slow"), limits=Limits(request_timeout=0.05))
    assert (got.status, got.fields["connection"]) == ("503 Service Unavailable", "close")
    assert "/slow: it took over 0.05 s" in caplog.text and f"in {app.__name__}" in caplog.text
    caplog.clear()


@pytest.mark.usefixtures("preemption_on")
def test_an_answer_that_has_begun_is_cut_when_its_time_is_up(caplog: pytest.LogCaptureFixture) -> None:
    closed: list[bool] = []

    class Pieces:
        def __iter__(self) -> Iterator[bytes]:
            yield b"first"
            dhaga.sleep(60)

        def close(self) -> None:
            closed.append(True)

    def app(environ: dict[str, Any], start: Start) -> Pieces:
        start("200 OK", [*TEXT, ("Content-Length", "10")])
        return Pieces()

    assert answer(app, get(), limits=Limits(request_timeout=0.05)).body == b"first"
    assert closed == [True] and "it took over 0.05 s" in caplog.text
    caplog.clear()


@pytest.mark.usefixtures("preemption_on")
def test_a_timeout_of_the_apps_own_is_an_error_of_the_app(caplog: pytest.LogCaptureFixture) -> None:
    def app(environ: dict[str, Any], start: Start) -> list[bytes]:
        with dhaga.Timeout(0.01):
            dhaga.sleep(60)
        return []

    assert answer(app, get(), limits=Limits(request_timeout=60)).status.startswith("500 ")
    assert "it took over" not in caplog.text
    caplog.clear()
