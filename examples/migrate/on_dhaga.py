"""Check all links of a site: the form of Dhaga. ``python -m examples.migrate.on_dhaga``."""

from __future__ import annotations

from typing import Any

import dhaga
from dhaga import socket
from dhaga.queue import Queue
from dhaga.servers import TCPServer
from dhaga.threading import Event, Lock
from examples.migrate.site import PATIENCE, SLOW, WORKERS, answer, links_of, show


def serve(sock: socket.socket, peer: Any) -> None:
    path = sock.makefile().readline().strip()
    if path == SLOW:
        dhaga.sleep(10)
    sock.sendall(answer(path).encode() + b"\n")


class Checker:
    """Workers take paths from a queue, and put in it what the pages link to."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self.paths: Queue[str] = Queue()
        self.findings: dict[str, str] = {}
        self.lock = Lock()
        self.all_here = Event()
        self.here = 0

    def run(self) -> None:
        with dhaga.Scope() as workers:  # ends when they have; what one raises cancels the others, and comes out here
            for _ in range(WORKERS):
                workers.spawn(self.work)
            self.add("/")
            self.paths.join()
            workers.cancel()
        show(self.findings, self.here)

    def add(self, path: str) -> None:
        with self.lock:
            if path not in self.findings:
                self.findings[path] = "not checked"
                self.paths.put(path)

    def work(self) -> None:
        self.here += 1
        if self.here == WORKERS:
            self.all_here.set()
        self.all_here.wait()
        while True:
            path = self.paths.get()
            try:
                self.findings[path] = self.check(path)
            finally:
                self.paths.task_done()

    def check(self, path: str) -> str:
        try:
            with dhaga.Timeout(PATIENCE):
                links = self.fetch(path)
        except TimeoutError:
            return "too slow"
        for link in links or ():
            self.add(link)
        return "missing" if links is None else f"{len(links)} links"

    def fetch(self, path: str) -> tuple[str, ...] | None:
        with socket.create_connection(self.address) as sock:
            sock.sendall(path.encode() + b"\n")
            return links_of(sock.makefile().readline())


def main() -> None:
    server = TCPServer(serve).start()
    Checker(server.address).run()
    server.stop(timeout=0)


if __name__ == "__main__":
    main()
