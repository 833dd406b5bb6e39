"""The compiled parts of a response do what their Python twins do, whatever the response, its connection and fields are.

``test_request_parser_known`` compares those of a request, with requests whose fields are not known.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhaga._kernel.fast.compiled import python_twin
from dhaga.http._server.connection import ServerConnection
from dhaga.http._server.response import TAKEN_SINK, Response
from dhaga.http.limits import Refusal
from tests._kernel.compiled_uses import repeating_connection

pytestmark = pytest.mark.skipif(isinstance(Response.start, FunctionType), reason="pure: both are the Python function")

NOW = 1e9


class Text(str):
    """A str that is equal to every other: its comparison must not be left out."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = str.__hash__


STATUSES = (
    "200 OK",
    "204 No Content",
    "205 Reset Content",
    "304 Not Modified",
    "20",
    "",
    "200 Ökay",
    Text("200 OK"),
    None,
)
FIELDS: list[Any] = [
    [("Content-Type", "text/plain"), ("Content-Length", "5")],
    [("Content-Type", "text/plain")],
    [("Content-Type", Text("text/html")), ("Content-Length", "5")],
    [["Content-Type", "text/plain"], ("Content-Length", "5")],
    [("Content-Type", "text/plain", "more"), ("Content-Length", "5")],
    [("Content-Type", "text/pläin"), ("Content-Length", "5")],
    [("Content-Type", "text/plain"), ("Content-Length", "6")],
    (("Content-Type", "text/plain"), ("Content-Length", "5")),
    [("Set-Cookie", "a=1")],
    [("Date", "today"), ("Server", "me")],
    [("Connection", "close")],
    [],
    None,
]
STATES: dict[str, Callable[[ServerConnection], object]] = {
    "open": lambda connection: None,
    "stopping": lambda connection: setattr(connection.server, "stopping", True),
    "not persistent": lambda connection: setattr(connection.parser, "persistent", False),
    "expects 100 Continue": lambda connection: setattr(connection.parser, "expects_continue", True),
    "refused": lambda connection: setattr(connection.parser, "error", Refusal("400 Bad Request", "a test")),
    "closing": lambda connection: setattr(connection, "closing", True),
    "a second later": lambda connection: setattr(connection.server_fields, "until", NOW),
    "a clock set back": lambda connection: setattr(connection.server_fields, "until", NOW + 3),
    "no Server": lambda connection: setattr(connection.server_fields, "both_fields", "Date: today\r\n"),
}
CALLS = (((None,), {}), ((5,), {}), ((0,), {"whole": True}), ((2**70,), {"whole": True}), ((7, True), {}), ((-1,), {}))
CALLS += (((None,), {"whole": True}), ((True,), {"whole": False}))


def outcome(call: Callable[..., Any], *arguments: Any, **named: Any) -> object:
    try:
        found = call(*arguments, **named)
    except Exception as error:
        return type(error), str(error)
    return getattr(found, "__name__", found)


def state_of(response: Response, connection: ServerConnection) -> list[object]:
    slots = [
        getattr(response, name) for name in (*Response.__slots__, "bodiless", "chunked", "remaining") if name != "sink"
    ]
    return [*slots, connection.closing, connection.server_fields.known_start, connection.server_fields.both_fields]


def told(twin: Callable[[Any], Any], case: tuple[Any, ...]) -> list[object]:
    """Return what a response tells and holds after each step of a case. ``twin`` chooses the functions."""
    state, before, status, fields, method, version, sink, (lengths, named) = case
    connection = repeating_connection()
    outcome(Response(connection, "GET", "HTTP/1.1").start, "200 OK", before)
    STATES[state](connection)
    response = Response(connection if sink is None else sink, method, version)
    found = [outcome(twin(Response.start), response, status, fields), *state_of(response, connection)]
    if sink is None:
        found += [outcome(twin(Response.head), response, *lengths, **named), *state_of(response, connection)]
    return found


@settings(max_examples=1000, deadline=None)
@given(
    st.tuples(
        st.sampled_from([*STATES]),
        st.sampled_from(FIELDS[:2]),
        st.sampled_from(STATUSES),
        st.sampled_from(FIELDS),
        st.sampled_from(["GET", "HEAD"]),
        st.sampled_from(["HTTP/1.1", "HTTP/1.0"]),
        st.sampled_from([None, None, TAKEN_SINK]),
        st.sampled_from(CALLS),
    )
)
def test_a_response_is_made_as_by_the_python_twins(case: tuple[Any, ...]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", lambda: NOW)
        assert told(lambda method: method, case) == told(python_twin, case)


def test_fields_that_the_app_changes_afterwards_are_not_those_of_the_next_response() -> None:
    fields = [("Content-Type", "text/plain"), ("Content-Length", "5")]
    connection = repeating_connection()
    for length in ("5", "6", "7"):
        fields[1] = ("Content-Length", length)
        response = Response(connection, "GET", "HTTP/1.1")
        response.start("200 OK", fields)
        assert (response.length, f"Content-Length: {length}\r\n" in response.lines) == (int(length), True)


def test_a_second_start_is_an_error_in_both() -> None:
    for start in (Response.start, python_twin(Response.start)):
        response = Response(repeating_connection(), "GET", "HTTP/1.1")
        start(response, "200 OK", [])
        with pytest.raises(AssertionError, match="already called"):
            start(response, "200 OK", [])
