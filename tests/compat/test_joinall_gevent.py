"""gevent's joinall and killall: waits for several greenlets, and their ends."""

from __future__ import annotations

import pytest

from dhaga.compat import gevent
from dhaga.compat.gevent import Greenlet
from tests.compat.test_greenlet_gevent import double, fail, silent

pytestmark = pytest.mark.usefixtures("clock")


def test_joinall_returns_what_has_ended() -> None:
    slow, quick = gevent.spawn(double, 1, 9), gevent.spawn(double, 2, 1)
    assert gevent.joinall([slow, quick], count=1) == [quick]
    assert gevent.joinall([slow, quick], timeout=1) == [quick]
    assert set(gevent.joinall([slow, quick])) == {slow, quick}
    bad = Greenlet(fail)
    waiting = gevent.spawn(silent, bad)
    gevent.spawn(bad.start)
    with pytest.raises(ValueError, match="wrong"):
        gevent.joinall([bad], raise_error=True)
    waiting.join()


def test_killall_kills_the_unstarted_too() -> None:
    victims = [gevent.spawn(double, 1, 9), Greenlet(double, 1), gevent.spawn_later(3, double, 1)]
    gevent.killall(victims)
    assert all(each.ready() for each in victims)
