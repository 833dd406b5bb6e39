"""What an inspector answers, to whom, and that the process that it serves is as it would be without it."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

from dhaga.debug._remote.client import InspectorClient
from dhaga.debug._remote.not_answered import NotAnswered
from tests.kit import scripts

FORKS = """
    import os
    import dhaga
    from dhaga import debug
    from dhaga.debug._remote import web_page
    from dhaga.debug._remote.client import InspectorClient
    mine = debug.inspect()
    debug.serve()
    def answered():
        with InspectorClient(os.getpid()) as line:
            return line.ask("table")["pid"] == os.getpid()
    if pid := os.fork():
        os.waitpid(pid, 0)
        print("parent", answered(), len(web_page.pages))
    else:
        print("child", answered(), debug.inspect().path != mine.path or debug.inspect() is mine, len(web_page.pages))
        debug.inspect().stop()
        os._exit(0)
"""


def test_a_forked_child_answers_for_itself(folder: Path) -> None:
    options = ("-W", "ignore::DeprecationWarning")
    assert scripts.prints(FORKS, *options) == ["child True True 0", "parent True 1"]
    assert list(folder.iterdir()) == []


CONNECTED = """
    import os
    from contextlib import suppress
    from dhaga import debug
    from dhaga.debug._remote.client import InspectorClient
    def is_open(socket):
        for fd in range(100):
            with suppress(OSError):
                if os.path.samestat(os.fstat(fd), socket):
                    return True
        return False
    with debug.inspect() as mine, InspectorClient(os.getpid()) as line:
        line.ask("table")
        [connection] = mine._server.connections
        socket = os.fstat(connection.fileno())
        if pid := os.fork():
            os.waitpid(pid, 0)
            print("parent", is_open(socket))
        else:
            print("child", is_open(socket))
            debug.inspect().stop()
            os._exit(0)
"""


def test_a_forked_child_does_not_keep_the_connections_of_its_parents_clients() -> None:
    assert scripts.prints(CONNECTED, "-W", "ignore::DeprecationWarning") == ["child False", "parent True"]


PATCHED = """
    import sys
    from dhaga import debug, monkey
    monkey.patch()
    debug.watch(60)
    import socket, threading
    from dhaga.debug._remote.client import InspectorClient
    asked = threading.Event()
    thread = threading.Thread(target=asked.wait, name="patched")
    thread.start()
    def ask():
        with InspectorClient(debug.inspect().pid) as line:
            print([row["name"] for row in line.ask("table")["rows"] if row["kind"] == "dhaga"])
    from dhaga import offload
    offload(ask)
    asked.set()
"""


def test_a_patched_program_is_looked_into_as_well() -> None:
    assert scripts.prints(PATCHED, DHAGA_DEBUG="1") == ["['patched']"]


ENDS = """
    import dhaga
    from dhaga import debug
    debug.inspect()
    print(dhaga.spawn(dhaga.park, "for ever, outside of a deadlock", name="late").ident)
    dhaga.spawn(dhaga.sleep, 1000, name="sleeper")
    print("ready")
"""


def test_a_process_that_waits_for_dhagas_at_its_end_still_answers() -> None:
    program = scripts.Program(ENDS)
    try:
        assert program.process.stdout is not None
        ident = int(program.process.stdout.readline())
        program.interrupt_at("ready", signal.SIGCONT)
        deadline = time.monotonic() + scripts.PATIENCE
        text = ""
        while not ("in _shutdown" in text and "late WAITING" in text):
            assert time.monotonic() < deadline, text
            text = answer_of(program.process.pid, "dump")["text"]
        for _ in range(2):
            try:
                assert answer_of(program.process.pid, "table")["total"] == 3
            except NotAnswered as error:  # Python 3.12 begins no thread any more
                assert "exiting, so that only a dump is available" in str(error)
        answer_of(program.process.pid, "cancel", ident=ident)
        while "late WAITING" in answer_of(program.process.pid, "dump")["text"]:
            assert time.monotonic() < deadline
    finally:
        program.process.kill()
        program.outcome()


def answer_of(pid: int, ask: str, **arguments: Any) -> dict[str, Any]:
    with InspectorClient(pid) as line:
        return line.ask(ask, **arguments)
