"""gevent's BackdoorServer."""

from __future__ import annotations

import pytest

from dhaga import socket
from dhaga.compat.gevent.backdoor import BackdoorServer

pytestmark = pytest.mark.usefixtures("all_end")


def test_a_client_talks_to_the_program() -> None:
    server = BackdoorServer(("127.0.0.1", 0), locals={"number": 41}, banner="hi")
    server.start()
    with socket.create_connection(server.address, timeout=20) as client, client.makefile("rw") as file:
        file.write("number + 1\nif number:\n  print('yes')\n\n1/0\nexit()\n")
        file.flush()
        text = file.read()
    server.stop()
    assert text.startswith("hi\n>>> 42\n") and "yes" in text and "ZeroDivisionError" in text


def test_each_client_has_names_of_its_own() -> None:
    server = BackdoorServer(("127.0.0.1", 0), locals={"number": 41})
    server.start()
    for _ in range(2):
        with socket.create_connection(server.address, timeout=20) as client, client.makefile("rw") as file:
            file.write("number += 1; print(number, __name__)\nexit()\n")
            file.flush()
            assert "42 __console__\n" in file.read()
    server.stop()
