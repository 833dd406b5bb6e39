"""Clients of socketio_server, in threads: ``… PORT COUNT`` prints how many got all that they asked for.

They go by polling, by a WebSocket, or upgrade from one to the other, in turn.
"""

import sys
import threading

import socketio

PATIENCE = 30
TRANSPORTS = {"polling": ["polling"], "websocket": ["websocket"], "upgraded": None}


def ask(url, transport, number, count, answers):
    client, ticks, ticked = socketio.Client(), [], threading.Event()

    @client.on("tick")
    def tick(number):
        ticks.append(number)
        if number == 2:
            ticked.set()

    client.connect(url, transports=TRANSPORTS[transport], wait_timeout=PATIENCE)
    answer = client.call("double", (number, count), timeout=PATIENCE)
    ticked.wait(PATIENCE)
    used = client.transport()
    client.disconnect()
    if (answer, ticks, used) == (2 * number, [0, 1, 2], "polling" if transport == "polling" else "websocket"):
        answers.append(number)


def main(port, count):
    answers, names = [], list(TRANSPORTS)
    threads = [
        threading.Thread(target=ask, args=(f"http://127.0.0.1:{port}", names[n % 3], n, int(count), answers))
        for n in range(int(count))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(len(answers))


main(*sys.argv[1:])
