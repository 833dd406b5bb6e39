"""Requests that two programs may read in two ways: each is refused, and what follows it never reaches the app."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dhaga.http.limits import Limits
from tests.http.framings import LEGAL, REFUSED, SMUGGLED
from tests.http.wire import Answer, ask, get, serving


class App:
    """Reads the body, tells it, and keeps the paths of what it was asked."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        self.paths.append(environ["PATH_INFO"])
        data = environ["wsgi.input"].read()
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [data]


@pytest.mark.parametrize("name", REFUSED)
def test_a_request_of_two_readings_is_refused(name: str) -> None:
    data, status = REFUSED[name]
    app = App()
    with serving(app, limits=Limits(body=1000)) as server:
        for sent in ((data,), (data + SMUGGLED,), (get("/first"), data + SMUGGLED)):
            answer = Answer(ask(server, *sent))
            if len(sent) == 2:
                answer = Answer(answer.rest)
            assert (answer.status[:3], answer.fields["connection"], answer.rest) == (str(status), "close", b"")
    assert "/smuggled" not in app.paths


@pytest.mark.parametrize("name", LEGAL)
def test_what_is_no_offence_is_served_and_so_is_what_follows(name: str) -> None:
    data, text = LEGAL[name]
    app = App()
    with serving(app) as server:
        first = Answer(ask(server, data + get("/next")))
        assert (first.status, first.body.decode()) == ("200 OK", text)
        assert Answer(first.rest).status == "200 OK"
    assert app.paths == ["/", "/next"]
