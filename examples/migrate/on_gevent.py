"""Check all links of a site: the gevent form. ``python -m examples.migrate.on_gevent``."""

from __future__ import annotations

from typing import Any

import gevent
from gevent import socket
from gevent.event import Event
from gevent.lock import BoundedSemaphore
from gevent.pool import Pool
from gevent.queue import JoinableQueue
from gevent.server import StreamServer

from examples.migrate.site import PATIENCE, SLOW, WORKERS, answer, links_of, show


def serve(sock: Any, peer: Any) -> None:
    path = sock.makefile().readline().strip()
    if path == SLOW:
        gevent.sleep(10)
    sock.sendall(answer(path).encode() + b"\n")


class Checker:
    """Workers take paths from a queue, and put in it what the pages link to."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self.paths = JoinableQueue()
        self.findings: dict[str, str] = {}
        self.lock = BoundedSemaphore(1)
        self.all_here = Event()
        self.here = 0

    def run(self) -> None:
        pool = Pool(WORKERS)
        workers = [pool.spawn(self.work) for _ in range(WORKERS)]
        self.add("/")
        self.paths.join()
        gevent.killall(workers)
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
            with gevent.Timeout(PATIENCE):
                links = self.fetch(path)
        except gevent.Timeout:
            return "too slow"
        for link in links or ():
            self.add(link)
        return "missing" if links is None else f"{len(links)} links"

    def fetch(self, path: str) -> tuple[str, ...] | None:
        with socket.create_connection(self.address) as sock:
            sock.sendall(path.encode() + b"\n")
            return links_of(sock.makefile().readline())


def main() -> None:
    server = StreamServer(("127.0.0.1", 0), serve)
    server.start()
    Checker(server.address).run()
    server.stop(timeout=0)


if __name__ == "__main__":
    main()
