"""Thousands of long polls: requests that a server answers late, all on their way at once from one OS thread."""

from __future__ import annotations

import json

import pytest

from tests.kit.scripts import prints

SERVER = """
import asyncio, resource, sys
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
polls, connections = [], 0

class Poll(asyncio.Protocol):
    def connection_made(self, transport):
        global connections
        connections += 1
        self.transport = transport

    def data_received(self, data):
        polls.append(self.transport)
        if len(polls) == int(sys.argv[1]):
            body = str(connections).encode()
            for transport in polls:
                transport.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n%s" % (len(body), body))
            polls.clear()

async def main():
    server = await asyncio.get_running_loop().create_server(Poll, "127.0.0.1", 0, backlog=8192)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""

CLIENT = """
import json, resource, subprocess, sys, threading, time
import dhaga
from dhaga.http import Session

count = {count}
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

def memory():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024

server = subprocess.Popen([sys.executable, "-c", {server!r}, str(count)], stdout=subprocess.PIPE, text=True)
url = f"http://127.0.0.1:{{int(server.stdout.readline())}}/"
before, began = memory(), time.process_time()
answers = []
with Session() as session:
    for _ in range({rounds}):
        polls = [dhaga.spawn(session.get, url, timeout=100) for _ in range(count)]
        answers.append(sorted({{poll.result().text for poll in polls}}))
    cpu = (time.process_time() - began) / {rounds}
    print(json.dumps([answers, threading.active_count(), memory() - before, cpu]))
    del polls
server.kill()
server.communicate()
"""


def polled(count: int, rounds: int) -> None:
    """Poll so often at once. The server's answer is how many connections it has seen."""
    (line,) = prints(CLIENT.format(count=count, rounds=rounds, server=SERVER))
    answers, threads, memory, cpu = json.loads(line)
    print(f"{count} long polls: {memory:.0f} MB, {cpu:.2f} s of CPU time a round")
    assert answers == [[str(count)]] * rounds  # each round over the connections of the first
    assert threads == 1


@pytest.mark.once
def test_hundreds_of_long_polls_need_one_thread() -> None:
    polled(300, rounds=2)


@pytest.mark.slow
def test_five_thousand_long_polls_need_one_thread() -> None:
    polled(5000, rounds=1)
