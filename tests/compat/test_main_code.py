"""The main code behind its greenlet, by which gevent's and eventlet's ``kill`` strike it."""

from __future__ import annotations

from typing import Any

import greenlet
import pytest

import dhaga
from dhaga.compat import eventlet, gevent
from dhaga.compat._shared.main_code import waiter_of


def test_what_parks_as_a_greenlet_is_a_dhaga_or_the_main_code(clock: Any) -> None:
    assert waiter_of(gevent.getcurrent()) is waiter_of(dhaga.current()) is dhaga.current()
    one = dhaga.spawn(lambda: waiter_of(eventlet.getcurrent()))
    assert one.result() is one is waiter_of(one)
    for other in (greenlet.greenlet(), object()):
        with pytest.raises(TypeError, match="neither one of Dhaga's microthreads nor the main code"):
            waiter_of(other)
