"""eventlet's backdoor: a prompt in the running program."""

from __future__ import annotations

import pytest

from dhaga.compat import eventlet
from dhaga.compat.eventlet.backdoor import backdoor_server


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
