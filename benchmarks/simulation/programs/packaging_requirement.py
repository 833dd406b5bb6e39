"""Threads parse the first requirements of a process: the grammar is made final by the first parse, not under a lock."""

import threading

from packaging.requirements import Requirement


def parse():
    assert str(Requirement("name[extra]>=1.0")) == "name[extra]>=1.0"


threads = [threading.Thread(target=parse) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
