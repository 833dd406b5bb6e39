"""What ``threading.current_thread()`` returns in a greenthread."""

from __future__ import annotations

from typing import Any

from dhaga import threading
from dhaga.compat import eventlet


def test_it_has_the_face_of_a_thread_and_can_be_joined() -> None:
    def work() -> Any:
        me: Any = threading.current_thread()
        assert [threading.current_thread()] == [me]
        assert me.name == me.get_name() == me.getName() and me.name.startswith("GreenThread-")
        assert me.is_alive() and me.isAlive() and me.is_daemon() and me.isDaemon() and me.ident == threading.get_ident()
        me.setName("mine")
        eventlet.sleep(0)
        return me

    greenthread = eventlet.spawn(work)
    eventlet.sleep(0)
    stand_in: Any
    (stand_in,) = (each for each in threading.enumerate() if each.name == "mine")
    stand_in.join(timeout=30)
    assert not stand_in.is_alive() and repr(stand_in).startswith("<_GreenThread(mine, stopped")
    assert greenthread.wait() is stand_in and stand_in not in threading.enumerate()


def test_a_join_ends_by_its_timeout() -> None:
    seen: list[Any] = []
    greenthread = eventlet.spawn(lambda: (seen.append(threading.current_thread()), eventlet.sleep(30)))
    eventlet.sleep(0)
    seen[0].join(0.01)
    assert seen[0].is_alive()
    greenthread.kill()
