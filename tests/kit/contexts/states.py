"""The states of a request. Each can be set to a user, and read by code that the request starts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import NamedTuple

from .modules import threading


class State(NamedTuple):
    set: Callable[[str], object]
    get: Callable[[], str | None]


def context_variable() -> State:
    variable: ContextVar[str] = ContextVar("user")
    return State(variable.set, lambda: variable.get(None))


def thread_local() -> State:
    here = threading.local()
    return State(partial(setattr, here, "user"), lambda: getattr(here, "user", None))


def running_loop() -> State:
    return State(lambda user: None, lambda: asyncio._get_running_loop() and "a loop")


def flask_request() -> State:
    from flask import Flask, has_request_context, request

    app = Flask("app")
    return State(
        lambda user: app.test_request_context(query_string={"user": user}).push(),
        lambda: request.args["user"] if has_request_context() else None,
    )


def django_script_prefix() -> State:
    from django.urls import get_script_prefix, set_script_prefix

    return State(set_script_prefix, lambda: get_script_prefix().strip("/") or None)


def asgiref_thread_critical() -> State:
    from asgiref.local import Local

    here = Local(thread_critical=True)
    return State(partial(setattr, here, "user"), lambda: getattr(here, "user", None))


def opentelemetry_context() -> State:
    from opentelemetry import context

    return State(
        lambda user: context.attach(context.set_value("user", user)),
        lambda: context.get_value("user"),
    )


STATES: dict[str, State] = {}
for make in (context_variable, thread_local, running_loop, flask_request, django_script_prefix) + (
    asgiref_thread_critical,
    opentelemetry_context,
):
    with contextlib.suppress(ImportError):
        STATES[make.__name__] = make()


def see() -> dict[str, str | None]:
    return {name: state.get() for name, state in STATES.items()}


def leave(user: str) -> None:
    for state in STATES.values():
        state.set(user)
