"""eventlet's backdoor: a prompt in the running program."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from dhaga import socket
from dhaga.compat import eventlet
from dhaga.compat._shared import prompt
from dhaga.compat.eventlet.backdoor import backdoor, backdoor_server


@pytest.mark.logs
def test_a_client_talks_to_the_program(caplog: pytest.LogCaptureFixture) -> None:
    listener = eventlet.listen(("127.0.0.1", 0))
    server = eventlet.spawn(backdoor_server, listener, {"number": 41})
    with eventlet.connect(listener.getsockname()) as client, client.makefile("rw") as file:
        client.settimeout(30)
        file.write("number + 1\n1/0\nexit()\n")
        file.flush()
        text = file.read()
    assert text.startswith("Python 3") and "(InteractiveConsole)\n>>> 42\n" in text and "ZeroDivisionError" in text
    assert "a client may do all" in caplog.text
    server.kill()
    with pytest.raises(OSError):
        listener.getsockname()


def connected(names: dict[str, Any] | None = None) -> tuple[Any, Any]:
    """Return a client's file, and the greenthread that serves this client."""
    client, server = socket.socketpair()
    client.settimeout(30)
    with client:
        return client.makefile("rw"), eventlet.spawn(backdoor, (server, None), names)


def told(file: Any, statements: str) -> None:
    file.write(statements)
    file.flush()


def test_each_client_gets_what_its_own_statements_print(capsys: pytest.CaptureFixture[str]) -> None:
    standard = sys.stdout, sys.stderr
    names = {name: eventlet.Event() for name in ("began_1", "go_1", "began_2", "go_2")}
    clients = []
    for name in "1", "2":
        clients.append(connected(names))
        told(clients[-1][0], f"began_{name}.send(); go_{name}.wait(); print({name} * 111)\nexit()\n")
        names[f"began_{name}"].wait()
    print("of the program", flush=True)
    for name, (file, server) in zip(("1", "2"), clients, strict=True):
        names[f"go_{name}"].send()
        server.wait()
        with file:
            assert file.read().endswith(f">>> {name * 3}\n>>> ")
    assert (sys.stdout, sys.stderr) == standard
    assert capsys.readouterr().out == "of the program\n"


def test_a_stream_that_the_program_replaces_meanwhile_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    began, go = eventlet.Event(), eventlet.Event()
    file, server = connected({"began": began, "go": go})
    told(file, "began.send(); go.wait(); print(1)\nexit()\n")
    began.wait()
    assert isinstance(sys.stdout, prompt.Output) and sys.stderr.encoding
    print("a program without a standard output", flush=True)
    monkeypatch.setattr(sys, "stdout", chosen := sys.__stdout__)
    go.send()
    server.wait()
    file.close()
    assert sys.stdout is chosen


def test_statements_change_the_names_of_the_program() -> None:
    names = {"number": 1}
    file, server = connected(names)
    told(file, "number += 4\nexit()\n")
    server.wait()
    file.close()
    assert names["number"] == 5
