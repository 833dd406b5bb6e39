"""Threads iterate a WeakValueDictionary while another drops its values."""

import threading
import weakref


class Value:
    pass


values = [Value() for _ in range(4)]
names = weakref.WeakValueDictionary(enumerate(values))


def read():
    for _ in range(2):
        for _ in names.items():
            pass


def drop():
    while values:
        values.pop()


threads = [threading.Thread(target=target) for target in (read, read, drop)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
