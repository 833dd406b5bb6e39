"""What is small in ``dhaga.compat.eventlet``, and a program of eventlet's, unchanged."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys

import pytest
from greenlet import GreenletExit

from dhaga.compat import eventlet
from dhaga.compat.eventlet import asyncio as eventlet_asyncio
from dhaga.compat.eventlet import corolocal, debug, greenio, support
from dhaga.testing import virtual_clock
from tests.examples.test_migrate import REPORT
from tests.kit.scripts import ROOT

INSTALL = "import dhaga.compat; dhaga.compat.install('eventlet')\n"


def run(code: str) -> str:
    command = [sys.executable, "-c", INSTALL + code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout


def test_a_program_of_eventlets_runs_unchanged() -> None:
    assert run("import runpy; runpy.run_module('examples.migrate.on_eventlet', run_name='__main__')") == REPORT


def test_a_program_ends_with_its_main_code_whatever_still_runs() -> None:
    code = """
import eventlet
listener = eventlet.listen(("127.0.0.1", 0))
eventlet.spawn(eventlet.serve, listener, lambda sock, peer: sock.recv(9))
client = eventlet.connect(listener.getsockname())
eventlet.spawn_n(eventlet.sleep, 1000)
eventlet.spawn_after(1000, print)
eventlet.sleep(0.05)
print("ends")
"""
    assert run(code) == "ends\n"


def test_a_greenthread_for_an_awaitable() -> None:
    ends: list[str] = []

    async def work(seconds: float) -> str:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise
        return "done"

    assert eventlet_asyncio.spawn_for_awaitable(work(0)).wait() == "done"
    one = eventlet_asyncio.spawn_for_awaitable(work(1000))
    eventlet.sleep(0.01)
    one.kill()
    with pytest.raises(GreenletExit):
        one.wait()
    assert ends == ["cancelled"]


def test_each_greenthread_has_attributes_of_its_own() -> None:
    own = corolocal.local()

    def work(value: int) -> int:
        own.value = value
        eventlet.sleep(0)
        return own.value

    workers = [eventlet.spawn(work, number) for number in range(3)]
    assert [each.wait() for each in workers] == [0, 1, 2] and not hasattr(own, "value")
    assert eventlet.spawn(corolocal.get_ident).wait() != corolocal.get_ident()


def test_debug_shows_what_is_waited_for() -> None:
    with virtual_clock():
        sleeper = eventlet.spawn(eventlet.sleep, 5)
        eventlet.sleep(0)
        assert (
            debug.format_hub_timers().startswith("TIMERS:\n5") and debug.format_hub_listeners() == "READERS:\nWRITERS:"
        )
        sleeper.kill()
    for switch in ("hub_listener_stacks", "hub_timer_stacks", "hub_prevent_multiple_readers", "hub_blocking_detection"):
        getattr(debug, switch)(True)
    debug.unspew()
    assert "MainThread" in debug.format_threads_info() and debug.format_asyncio_info() == "TASKS:"


def test_what_cannot_be_had_names_the_way() -> None:
    with pytest.raises(NotImplementedError, match=r"dhaga\.debug\.trace"):
        debug.spew()
    with pytest.raises(ImportError, match=r"dhaga\.socket\.getaddrinfo"):
        support.greendns
    with pytest.raises(ImportError, match="OpenTelemetry"):
        eventlet.zipkin
    code = """
for line in ("import eventlet.zipkin.client", "from eventlet import zipkin", "from eventlet.support import greendns"):
    try:
        exec(line)
    except ImportError as error:
        print("there is no eventlet." in str(error))
"""
    assert run(code).split() == ["True"] * 3
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        eventlet.nothing


def test_small_helpers() -> None:
    assert [support.get_errno(each) for each in (OSError(5, "x"), KeyError("k"), KeyError())] == [5, "k", None]
    assert support.greenlets.getcurrent() is eventlet.getcurrent()
    listener = eventlet.listen(("127.0.0.1", 0))
    client = greenio.GreenSocket()
    client.connect(listener.getsockname())
    greenio.shutdown_safe(client)
    client.close()
    greenio.shutdown_safe(client)
    listener.close()


def test_a_pipe_over_a_file_owns_its_descriptor() -> None:
    here, there = os.pipe()
    file = os.fdopen(here, "rb")
    pipe = greenio.GreenPipe(file, "rb")
    assert file.closed
    del file
    reader = eventlet.spawn(pipe.read)
    eventlet.sleep(0)
    with greenio.GreenPipe(name=there, mode="w", buffering=1, encoding="ascii") as other:
        other.write("x")
    assert reader.wait() == b"x"
    pipe.close()


def test_a_socket_that_is_converted_keeps_its_timeout() -> None:
    with socket.socket() as plain:
        plain.settimeout(5)
        with greenio.GreenSocket(plain) as sock:
            assert sock.gettimeout() == 5
    with socket.socket() as plain, greenio.GreenSocket(plain) as sock:
        assert sock.gettimeout() is None


def test_the_names_of_greenlet_are_there_below_eventlet() -> None:
    from dhaga.compat.eventlet import greenlet

    assert eventlet.greenlet is greenlet
    assert greenlet.GreenletExit is GreenletExit
