"""The errors that the arguments of ``throw`` describe."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from greenlet import GreenletExit

from dhaga.compat._shared.thrown import thrown

ERROR = KeyError("mine")


@pytest.mark.parametrize(
    ("arguments", "kind", "args"),
    [
        ((), GreenletExit, ()),
        ((KeyError,), KeyError, ()),
        ((KeyError, "mine"), KeyError, ("mine",)),
        ((LookupError, ERROR), KeyError, ("mine",)),
        ((ERROR, None, None), KeyError, ("mine",)),
    ],
)
def test_type_value_and_traceback_make_an_error(arguments: Any, kind: type, args: Any) -> None:
    error = thrown(*arguments)
    assert type(error) is kind and error.args == args
    assert error is ERROR or ERROR not in arguments


def test_it_keeps_the_traceback_given() -> None:
    try:
        raise ERROR
    except KeyError:
        kind, value, trace = sys.exc_info()
    assert thrown(kind, value, trace) is ERROR and ERROR.__traceback__ is trace
    assert thrown(ValueError, "other", trace).__traceback__ is trace
