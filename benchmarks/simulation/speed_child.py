"""Run one program in a simulation, and print its events and its seconds of CPU: run by ``speed.py``."""

from __future__ import annotations

import json
import queue
import sys
import threading
import time
from collections.abc import Callable

from dhaga._cli.simulate import start_again
from dhaga.simulation import Simulation
from examples.notifications.client_protocols import Heard
from examples.notifications.simulated import TOPIC, listening

cpu = time.process_time

CLIENTS = 1000
HOUR = 3600
PAUSE = 60
"""Seconds between two messages. The server also sends each client a heartbeat every 15 s."""

THREADS = 100
TURNS = 1000
"""Turns of each thread."""


def hour() -> None:
    """Listen with 1,000 clients to a notification server for an hour. All clients receive each message."""
    heard: list[Heard] = []
    with listening([heard.append] * CLIENTS) as service:
        for number in range(HOUR // PAUSE):
            service.publish(TOPIC, b"message %d" % number)
            time.sleep(PAUSE)
    assert len(heard) == CLIENTS * (HOUR // PAUSE)


def run_threads(*targets: Callable[[], None]) -> None:
    threads = [threading.Thread(target=target) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def yields() -> None:
    """Yield, so that all threads are runnable all the time."""

    def work() -> None:
        for _ in range(TURNS):
            time.sleep(0)

    run_threads(*[work] * THREADS)


def queues() -> None:
    """Pass items back and forth in pairs of threads."""

    def pair() -> tuple[Callable[[], None], Callable[[], None]]:
        there: queue.Queue[int] = queue.Queue()
        back: queue.Queue[int] = queue.Queue()

        def ask() -> None:
            for number in range(TURNS):
                there.put(number)
                back.get()

        def answer() -> None:
            for _ in range(TURNS):
                back.put(there.get())

        return ask, answer

    run_threads(*[work for _ in range(THREADS // 2) for work in pair()])


def locks() -> None:
    """Sleep while holding a lock that all others wait for."""
    lock = threading.Lock()

    def work() -> None:
        for _ in range(TURNS // 2):
            with lock:
                time.sleep(0.001)

    run_threads(*[work] * THREADS)


PROGRAMS = {program.__name__: program for program in (hour, yields, queues, locks)}


def main() -> None:
    name, strategy, seed = sys.argv[1:]
    simulation = Simulation(int(seed), strategy=strategy, preempt=None, max_events=10_000_000)
    began = cpu()
    with simulation:
        PROGRAMS[name]()
    print(json.dumps({"events": simulation.run.log.count, "cpu": round(cpu() - began, 3), "hash": simulation.hash}))


if __name__ == "__main__":
    if sys.flags.hash_randomization:
        start_again()
    main()
