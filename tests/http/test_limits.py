"""Limits: what they refuse to be, and what a server says where a client goes beyond them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from dhaga.http.limits import Limits
from tests.http.wire import answer, get, hello, post

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
            Limits(**{name: None})  # type: ignore[arg-type]
    else:
        assert getattr(Limits(**{name: None}), name) is None  # type: ignore[arg-type]


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
