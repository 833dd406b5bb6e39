"""Kill -9 at random, and look for gaps: python -m examples.notifications.chaos --seconds 300.

A Redis and two servers of its own, and listeners by all four endpoints in ten processes. A publisher posts numbers
to the servers, each until one says that it has taken it. Meanwhile, one after the other, Redis, a server, or two of
the ten client processes are killed and started again. In the end every listener must have got every number of its topic
that was taken, no post may have hung, and the servers must hold no more dhagas and files than before.

One thing is killed at a time, and must be back before the next: what Redis and the server that accepted it lose within
the same moment is lost (`redis_link`). Exit status: 0 all is well, 1 something is missing.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from .__main__ import at_least_one, seconds

KINDS: Final = ("tcp", "sse", "websocket", "poll")
PROCESSES: Final = 10  # of which two are 20 %
TOPICS: Final = 4
RATE: Final = 50.0  # messages a second
BACK: Final = 20.0  # seconds within which all must work again
POST_SECONDS: Final = 10.0
PAUSE: Final = (0.5, 2.5)  # seconds between a recovery and the next kill
ROOT: Final = Path(__file__).parents[2]


class MessageLost(Exception):
    """What did not come back, or was lost."""


def free_port() -> int:
    """A port that is free just now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def until(done: Callable[[], bool], what: str, timeout: float = BACK) -> None:
    """Wait for something. Raises: Broken if it does not come about."""
    deadline = time.monotonic() + timeout
    while not done():
        if time.monotonic() > deadline:
            raise MessageLost(f"{what}: not within {timeout:g} s")
        time.sleep(0.05)


class ManagedProcess:
    """A process that is killed and started again."""

    def __init__(self, name: str, command: list[str]) -> None:
        self.name = name
        self.command = command
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it."""
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(self.command, cwd=ROOT, stdout=quiet, stderr=quiet)

    def kill(self) -> None:
        """Kill -9. Parks: until it is gone."""
        if self.process:
            self.process.kill()
            self.process.wait()

    def works(self) -> bool:
        """Return whether it does what it is there for."""
        raise NotImplementedError


class Redis(ManagedProcess):
    """A Redis that keeps nothing on disk."""

    def __init__(self, directory: str) -> None:
        self.port = free_port()
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        super().__init__("redis", ["redis-server", *options, "--dir", directory])

    def works(self) -> bool:
        """Return whether it answers."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as sock:
                sock.sendall(b"PING\r\n")
                return sock.recv(100).startswith(b"+PONG")
        except OSError:
            return False


class Server(ManagedProcess):
    """One of the servers."""

    def __init__(self, number: int, redis: Redis) -> None:
        self.port, self.line_port = free_port(), free_port()
        ports = ["--port", str(self.port), "--line-port", str(self.line_port), "--heartbeat", "2"]
        command = [sys.executable, "-m", "examples.notifications", *ports]
        super().__init__(f"server {number}", [*command, "--redis", f"redis://127.0.0.1:{redis.port}"])

    def works(self) -> bool:
        """Return whether it answers, and has its link to Redis."""
        status = self.status()
        return bool(status and status["redis"])

    def status(self) -> dict[str, Any] | None:
        """Ask for its figures; None if it does not answer."""
        try:
            return dict(json.loads(request(self.port, "GET", "/status")[1]))
        except (OSError, http.client.HTTPException, ValueError):
            return None

    def files(self) -> int:
        """Count its open files."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd")) if self.process else 0

    def place(self, kind: str) -> tuple[str, str, int]:
        """Tell where one of its endpoints is."""
        return kind, "127.0.0.1", self.line_port if kind == "tcp" else self.port


def request(port: int, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    """Make one HTTP request. Raises: OSError, HTTPException."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=POST_SECONDS)
    try:
        connection.request(method, path, body)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


class ListenerProcess(ManagedProcess):
    """A process of listeners, and what they got; started again, they go on where they were."""

    def __init__(self, number: int, listeners: int, servers: list[Server]) -> None:
        super().__init__(f"clients {number}", [sys.executable, "-m", "examples.notifications.listener_process"])
        self.topics = {f"{number}.{index}": f"chaos-{index % TOPICS}" for index in range(listeners)}
        self.places = {
            name: [server.place(KINDS[(number + index) % len(KINDS)]) for server in servers]
            for index, name in enumerate(self.topics)
        }
        self.last: dict[str, str] = {}
        self.got: dict[str, Counter[int]] = {name: Counter() for name in self.topics}
        self.gaps = 0
        self.reader: threading.Thread | None = None

    def start(self) -> None:
        """Start the process, and read what it says."""
        told = [
            {"name": name, "topic": topic, "last": self.last.get(name), "places": self.places[name]}
            for name, topic in self.topics.items()
        ]
        process = subprocess.Popen(self.command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin
        process.stdin.write(json.dumps(told).encode())
        process.stdin.close()
        self.process = process
        self.reader = threading.Thread(target=self.read, args=(process,), daemon=True)
        self.reader.start()

    def read(self, process: subprocess.Popen[bytes]) -> None:
        """Note what its listeners get, until it ends."""
        assert process.stdout
        with process.stdout as lines:
            for line in lines:
                if line.endswith(b"\n"):
                    self.note(*line.decode().split())

    def note(self, name: str, id: str, what: str) -> None:
        if what == "gap":
            self.gaps += 1
            return
        self.last[name] = id
        if what != "-":
            self.got[name][int(what)] += 1

    def kill(self) -> None:
        """Kill -9, and read what it has said before."""
        super().kill()
        if self.reader:
            self.reader.join()

    def works(self) -> bool:
        """Return whether all its listeners know where they are."""
        return len(self.last) == len(self.topics)

    def missing(self, taken: dict[str, list[int]]) -> list[tuple[str, int]]:
        """Give what listeners have not got of what was taken."""
        return [
            (name, number)
            for name, topic in self.topics.items()
            for number in taken.get(topic, ())
            if not self.got[name][number]
        ]


class Publisher(threading.Thread):
    """Posts numbers until told to stop, each until it is taken."""

    def __init__(self, servers: list[Server]) -> None:
        super().__init__(daemon=True)
        self.servers = servers
        self.taken: dict[str, list[int]] = {}
        self.refused = 0
        self.slowest = 0.0
        self.stopping = threading.Event()

    def run(self) -> None:
        """Post."""
        number = 0
        while not self.stopping.wait(1 / RATE):
            number += 1
            topic = f"chaos-{number % TOPICS}"
            while not self.post(topic, number):
                self.refused += 1
                time.sleep(0.05)
            self.taken.setdefault(topic, []).append(number)

    def post(self, topic: str, number: int) -> bool:
        begin = time.monotonic()
        try:
            status, _ = request(random.choice(self.servers).port, "POST", f"/topics/{topic}", str(number).encode())
        except (OSError, http.client.HTTPException):
            status = 0
        self.slowest = max(self.slowest, time.monotonic() - begin)
        return status == 200


class Chaos:
    """All parts, and what is done to them."""

    def __init__(self, directory: str, listeners: int) -> None:
        self.redis = Redis(directory)
        self.servers = [Server(number, self.redis) for number in (1, 2)]
        self.processes = [ListenerProcess(number, listeners, self.servers) for number in range(PROCESSES)]
        self.publisher = Publisher(self.servers)
        self.kills: Counter[str] = Counter()
        self.before: list[tuple[int, int]] = []

    def start(self) -> None:
        """Start everything. Raises: Broken."""
        for parts in ([self.redis], self.servers):
            self.bring(parts)
        self.before = [self.held(server) for server in self.servers]
        self.bring(self.processes)
        self.publisher.start()

    def bring(self, parts: Sequence[ManagedProcess]) -> None:
        for part in parts:
            part.start()
        for part in parts:
            until(part.works, f"{part.name} works")

    def rage(self, duration: float) -> None:
        """Kill one after the other for so many seconds. Raises: Broken."""
        end = time.monotonic() + duration
        while time.monotonic() < end:
            time.sleep(random.uniform(*PAUSE))
            victims = random.choice(self.choices())
            for victim in victims:
                victim.kill()
                self.kills[victim.name.split()[0]] += 1
            time.sleep(random.uniform(0, 1))
            self.bring(victims)
            for server in self.servers:
                until(server.works, f"{server.name} works after the end of {victims[0].name}")

    def choices(self) -> list[list[ManagedProcess]]:
        return [[self.redis], [random.choice(self.servers)], list(random.sample(self.processes, PROCESSES // 5))]

    def finish(self) -> None:
        """Publish no more, and let all arrive. Raises: Broken if something does not, or is left over."""
        self.publisher.stopping.set()
        self.publisher.join()
        try:
            until(lambda: not self.missing(), "all messages have arrived")
        except MessageLost as error:
            missing = self.missing()
            raise MessageLost(f"{len(missing)} are missing, such as {missing[:5]}: {error}") from None
        for process in self.processes:
            process.kill()
        for server, before in zip(self.servers, self.before, strict=True):
            until(lambda server=server: not any(self.clients(server)), f"{server.name} has no clients left")  # type: ignore[misc]
            self.compare(server, before)

    def compare(self, server: Server, before: tuple[int, int]) -> None:
        dhagas, files = self.held(server)
        if dhagas > before[0] or files > before[1] + 16:  # it may hold so many connections to Redis
            raise MessageLost(f"{server.name} is left with {dhagas} dhagas and {files} files, of {before} before")

    def missing(self) -> list[tuple[str, int]]:
        return [lost for process in self.processes for lost in process.missing(self.publisher.taken)]

    def clients(self, server: Server) -> list[int]:
        status = server.status()
        return list(status["clients"].values()) if status else [1]

    def held(self, server: Server) -> tuple[int, int]:
        status = server.status()
        return (status["dhagas"] if status else 0), server.files()

    def stop(self) -> None:
        """End everything."""
        self.publisher.stopping.set()
        for part in (*self.processes, *self.servers, self.redis):
            part.kill()

    def report(self) -> dict[str, Any]:
        """Tell what has come of it."""
        got = [counts for process in self.processes for counts in process.got.values()]
        return {
            "kills": dict(self.kills),
            "listeners": len(got),
            "taken": sum(map(len, self.publisher.taken.values())),
            "refused and posted again": self.publisher.refused,
            "slowest post / s": round(self.publisher.slowest, 2),
            "delivered": sum(counts.total() for counts in got),
            "of these again": sum(counts.total() - len(counts) for counts in got),
            "missing": len(self.missing()),
            "gaps told": sum(process.gaps for process in self.processes),
        }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chaos; give the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.notifications.chaos", description="Kill, and look for gaps."
    )
    parser.add_argument("--seconds", type=seconds, default=30.0)
    parser.add_argument("--listeners", type=at_least_one, default=20, help=f"in each of {PROCESSES} processes")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args(arguments)
    if not shutil.which("redis-server"):
        print("error: redis-server is needed: install Redis", file=sys.stderr)
        return 1
    random.seed(options.seed)
    return run(options)


def run(options: argparse.Namespace) -> int:
    """Do it, and print what has come of it."""
    with tempfile.TemporaryDirectory() as directory:
        chaos = Chaos(directory, options.listeners)
        broken: MessageLost | None = None
        try:
            chaos.start()
            chaos.rage(options.seconds)
            chaos.finish()
        except MessageLost as error:
            broken = error
        finally:
            chaos.stop()
    print(json.dumps({"seed": options.seed, **chaos.report(), "broken": broken and str(broken)}, indent=1))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
