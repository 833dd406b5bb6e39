"""Two threads read lines of a file, and one checks whether it has changed, as tracebacks do."""

import linecache
import os
import threading

linecache.clearcache()
name = os.path.abspath(__file__)


def read():
    assert linecache.getline(name, 1)
    linecache.checkcache(name)
    linecache.clearcache()


threads = [threading.Thread(target=read) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
