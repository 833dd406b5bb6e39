"""A writer takes the read lock within its write lock, while a second writer waits: both wait for ever."""

import threading

import fasteners

lock = fasteners.ReaderWriterLock()


def write():
    with lock.write_lock(), lock.read_lock():
        pass


threads = [threading.Thread(target=write, name=f"writer {number}") for number in (1, 2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
