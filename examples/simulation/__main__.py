"""Three replicas and three clients, while replicas are killed and parted from the others.

python -m dhaga simulate -m examples.simulation [--bug early|forgets]
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
from pathlib import Path
from typing import Final

from dhaga.simulation import History, current, registers

from .client import Client, Unavailable
from .store import Replica

REPLICAS: Final = ("one", "two", "three")
CLIENTS: Final = ("ann", "bob", "eve")
CALLS: Final = 6
BUGS: Final = ("early", "forgets")


def run_replica(directory: Path, early: bool) -> None:
    """Run a replica: the main function of its host."""
    Replica(directory, early).serve()


def use(client: Client, history: History) -> None:
    """Read and write one key."""
    for number in range(CALLS):
        try:
            if random.random() < 0.4:
                value = f"{client.name} {number}"
                with history.call("put", "key", value):
                    client.put("key", value)
            else:
                with history.call("get", "key") as call:
                    _, call.result = client.get("key")
        except Unavailable:
            pass
        time.sleep(random.random())


def disturb() -> None:
    """Do something to a replica or more: cut their power, or part one from all others for a time."""
    network = current().network
    names = random.sample(REPLICAS, random.randrange(1, 4))
    if random.random() < 0.7:
        for name in names:
            network.hosts.find(name).kill()
        time.sleep(random.random())
        for name in names:
            network.hosts.find(name).restart()
    else:
        with network.partition(names[:1]):
            time.sleep(random.random() * 3)


def program(bug: str | None) -> None:
    """Run the store and its clients, and check that the clients saw one value at a time. Raises: NotLinearizable."""
    network = current().network
    for name in REPLICAS:
        host = network.host(name)
        host.disk.set(sync=(0.01, 0.3))
        host.start(run_replica, host.disk.path, bug == "early")
    time.sleep(1)
    history = History()
    users = [network.host(name).spawn(use, Client(name, REPLICAS, bug == "forgets"), history) for name in CLIENTS]
    done = threading.Event()
    while any(user.is_alive() for user in users):
        disturb()
        done.wait(random.random())
    history.check(registers, "")
    for name in REPLICAS:
        network.hosts.find(name).kill()


def main() -> int:
    """Run the simulation of one seed. Returns: the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m dhaga simulate -m examples.simulation",
        description="Kill and part the replicas of a small store, and check what its clients see.",
    )
    parser.add_argument(
        "--bug", choices=BUGS, help="early: acknowledge before fsync; forgets: read without writing back"
    )
    bug = parser.parse_args().bug
    try:
        program(bug)
    except RuntimeError as error:
        if "no simulation is under way" not in str(error):
            raise
        print("run it in a simulation: python -m dhaga simulate -m examples.simulation", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
