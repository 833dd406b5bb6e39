"""The traditional proxy: requests go into a queue, from which a fixed pool of OS threads takes them."""

import socket
from queue import SimpleQueue
from threading import Thread
from time import sleep

from benchmarks.rate_model.clients import calling
from benchmarks.rate_model.run import Run, drive, recorded, sleeping


def perform(run: Run) -> None:
    """Perform a run. A hanging thread remains until the end of the process."""
    plan = run.plan
    request = recorded(run, calling(plan.ports, socket.socket) if plan.ports else sleeping(plan, sleep))
    waiting: SimpleQueue[int] = SimpleQueue()

    def worker() -> None:
        while True:
            request(waiting.get())

    for _ in range(plan.threads):
        Thread(target=worker, daemon=True).start()
    drive(run, sleep, waiting.put)
