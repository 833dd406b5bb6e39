"""ASGI apps of all kinds are recognised, and WSGI apps of all kinds are not taken for them."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from dhaga.http.wsgi import Server
from dhaga.servers._asgi import is_asgi, refusal


async def coroutine(scope: Any, receive: Any, send: Any) -> None: ...


def decorated(scope: Any, receive: Any, send: Any) -> Any:
    return coroutine(scope, receive, send)


class Framework:
    async def __call__(self, scope: Any, receive: Any, send: Any) -> None: ...

    async def method(self, scope: Any, receive: Any, send: Any) -> None: ...


@pytest.mark.parametrize("app", [coroutine, decorated, Framework(), Framework().method, functools.partial(coroutine)])
def test_an_asgi_app_is_recognised(app: Any) -> None:
    assert is_asgi(app)


def function(environ: Any, start_response: Any) -> Any: ...


class Site:
    def __init__(self, environ: Any, start_response: Any) -> None: ...

    def __call__(self, environ: Any, start_response: Any) -> Any: ...


@pytest.mark.parametrize("app", [function, Site, Site(1, 2), Framework, functools.partial(function), print, dict, 5])
def test_anything_else_is_none(app: Any) -> None:
    assert not is_asgi(app)


def test_the_frameworks_of_wsgi_are_none() -> None:
    flask, django = pytest.importorskip("flask"), pytest.importorskip("django.core.handlers.wsgi")
    assert not is_asgi(flask.Flask("site"))
    assert not is_asgi(django.WSGIHandler.__new__(django.WSGIHandler))


def test_the_refusal_names_the_command_that_serves_it() -> None:
    assert refusal("site:app").endswith(": python -m dhaga -m uvicorn site:app")
    assert refusal("site:make()").endswith(": python -m dhaga -m uvicorn --factory site:make")
    with pytest.raises(TypeError, match=r"is an ASGI app.*python -m dhaga -m uvicorn"):
        Server(coroutine)
