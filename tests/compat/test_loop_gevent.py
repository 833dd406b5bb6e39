"""The watchers of a hub's loop."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

from dhaga.compat import gevent
from dhaga.compat.gevent import core
from dhaga.compat.gevent.event import Event


def test_a_timer_fires_once_or_again(clock: Any) -> None:
    loop = gevent.get_hub().loop
    once: list[int] = []
    with loop.timer(1) as timer:
        timer.start(once.append, 1)
        assert timer.active
        gevent.sleep(5)
        assert once == [1] and not timer.active
    again: list[int] = []
    timer = loop.timer(1, repeat=1)
    timer.start(again.append, 2)
    gevent.sleep(3.5)
    timer.stop()
    gevent.sleep(3)
    assert again == [2, 2, 2]
    timer.start(again.append, 3)
    timer.start(again.append, 4)
    gevent.sleep(2.5)
    timer.stop()
    assert again[3:] == [4, 4]
    with loop.timer(1) as never:
        never.again(again.append, 5)
        gevent.sleep(2)
    assert 5 not in again
    with pytest.raises(TypeError):
        timer.start(None)


def test_an_fd_fires_while_it_is_ready() -> None:
    read_end, write_end = os.pipe()
    loop, seen, done = gevent.get_hub().loop, [], Event()
    watcher = loop.io(read_end, core.READ)

    def ready(events: int, name: str) -> None:
        seen.append((events, name, os.read(read_end, 1)))
        if len(seen) == 2:
            watcher.stop()
            done.set()

    watcher.start(ready, "mine", pass_events=True)
    os.write(write_end, b"abc")
    assert done.wait(30)
    gevent.sleep(0.01)
    assert seen == [(1, "mine", b"a"), (1, "mine", b"b")]
    watcher.close()
    for wrong in ((-1, 1), (read_end, 8)):
        with pytest.raises(ValueError, match=r"fd must be|illegal"):
            loop.io(*wrong)
    os.close(read_end)
    os.close(write_end)


@pytest.mark.usefixtures("all_end")
def test_hub_wait_takes_a_watcher() -> None:
    read_end, write_end = os.pipe()
    writing = gevent.spawn_later(0.01, os.write, write_end, b"x")
    hub = gevent.get_hub()
    hub.wait(hub.loop.io(read_end, 1))
    assert os.read(read_end, 1) == b"x"
    writing.join()
    gevent.idle()
    os.close(read_end)
    os.close(write_end)


def test_another_thread_may_send_and_call() -> None:
    loop, done, called = gevent.get_hub().loop, Event(), Event()
    watcher = loop.async_()
    watcher.start(done.set)
    thread = threading.Thread(target=lambda: (watcher.send(), loop.run_callback_threadsafe(called.set)))
    thread.start()
    assert done.wait(30) and called.wait(30)
    thread.join()
    watcher.stop()


def test_a_callback_may_be_taken_back(clock: Any) -> None:
    seen: list[int] = []
    callback = gevent.get_hub().loop.run_callback(seen.append, 1)
    assert callback.pending
    callback.stop()
    gevent.sleep(1)
    assert seen == []


def test_what_libev_alone_has_is_refused() -> None:
    with pytest.raises(NotImplementedError, match=r"dhaga\.subprocess"):
        gevent.get_hub().loop.child(1)
