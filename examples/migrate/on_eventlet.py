"""Check all links of a site: the eventlet form. ``python -m examples.migrate.on_eventlet``."""

from __future__ import annotations

from typing import Any

import eventlet
from eventlet.event import Event
from eventlet.green import socket
from eventlet.queue import Queue
from eventlet.semaphore import Semaphore

from examples.migrate.site import PATIENCE, SLOW, WORKERS, answer, links_of, show


def serve(sock: Any, peer: Any) -> None:
    path = sock.makefile().readline().strip()
    if path == SLOW:
        eventlet.sleep(10)
    sock.sendall(answer(path).encode() + b"\n")
    sock.close()


class Checker:
    """Workers take paths from a queue, and put in it what the pages link to."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self.paths = Queue()
        self.findings: dict[str, str] = {}
        self.lock = Semaphore(1)
        self.all_here = Event()
        self.here = 0

    def run(self) -> None:
        pool = eventlet.GreenPool(WORKERS)
        workers = [pool.spawn(self.work) for _ in range(WORKERS)]
        self.add("/")
        self.paths.join()
        for worker in workers:
            worker.kill()
        show(self.findings, self.here)

    def add(self, path: str) -> None:
        with self.lock:
            if path not in self.findings:
                self.findings[path] = "not checked"
                self.paths.put(path)

    def work(self) -> None:
        self.here += 1
        if self.here == WORKERS:
            self.all_here.send()
        self.all_here.wait()
        while True:
            path = self.paths.get()
            try:
                self.findings[path] = self.check(path)
            finally:
                self.paths.task_done()

    def check(self, path: str) -> str:
        try:
            with eventlet.Timeout(PATIENCE):
                links = self.fetch(path)
        except eventlet.Timeout:
            return "too slow"
        for link in links or ():
            self.add(link)
        return "missing" if links is None else f"{len(links)} links"

    def fetch(self, path: str) -> tuple[str, ...] | None:
        with socket.create_connection(self.address) as sock:
            sock.sendall(path.encode() + b"\n")
            return links_of(sock.makefile().readline())


def main() -> None:
    listener = eventlet.listen(("127.0.0.1", 0))
    server = eventlet.spawn(eventlet.serve, listener, serve)
    Checker(listener.getsockname()).run()
    server.kill()


if __name__ == "__main__":
    main()
