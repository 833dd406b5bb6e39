"""Clients of flask_sockets by Socket.IO, in threads: ``… PORT TRANSPORT COUNT`` prints how many got their answer."""

from __future__ import annotations

import sys
import threading
from typing import Any

import socketio

PATIENCE = 30


def ask(url: str, transport: str, number: int, answers: list[Any]) -> None:
    client, answered = socketio.Client(), threading.Event()

    @client.on("doubled")
    def doubled(value: int) -> None:
        answers.append((number, value))
        answered.set()

    client.connect(url, transports=[transport], wait_timeout=PATIENCE)
    client.emit("double", number)
    answered.wait(PATIENCE)
    assert client.transport() == transport
    client.disconnect()


def main(port: str, transport: str, count: str) -> None:
    answers: list[Any] = []
    arguments = [(f"http://127.0.0.1:{port}", transport, number, answers) for number in range(int(count))]
    threads = [threading.Thread(target=ask, args=each) for each in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(len({number for number, value in answers if value == 2 * number}))


main(*sys.argv[1:])
