"""Threads that compute or poll without a pause, each until others have done their part: cooperative turns never end."""

import contextlib
import fcntl
import os
import socket
import sys
import tempfile
import threading
import time
from collections import OrderedDict

COUNT = 8
ROUNDS = 10


def run_together(*works):
    """Run each function in a thread of its own."""
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def non_blocking_socket():
    """Servers that read without blocking, in a loop; a client of urllib3 for each."""
    import urllib3

    answers = []

    def serve(listener):
        connection, _ = listener.accept()
        connection.setblocking(False)
        request = b""
        while not request.endswith(b"hello"):
            with contextlib.suppress(BlockingIOError):
                request += connection.recv(1024)
        connection.setblocking(True)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
        connection.close()

    def ask(port):
        with urllib3.PoolManager() as pool:
            answers.append(pool.request("POST", f"http://127.0.0.1:{port}/", body=b"hello", retries=False).data)

    with contextlib.ExitStack() as opened:
        listeners = [opened.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(COUNT)]
        servers = [lambda each=each: serve(each) for each in listeners]
        clients = [lambda each=each: ask(each.getsockname()[1]) for each in listeners]
        run_together(*servers, *clients)
    assert answers == [b"hi"] * COUNT


def stop_flag():
    """Threads that use an object with a lock until the main one tells them to stop."""
    stop = threading.Event()
    lock = threading.Lock()
    used = dict.fromkeys(range(COUNT), 0)

    def use(n):
        while not stop.is_set():
            with lock:
                used[n] += 1

    threads = [threading.Thread(target=use, args=(n,)) for n in range(COUNT)]
    for thread in threads:
        thread.start()
    while not all(used.values()):
        time.sleep(0.01)
    stop.set()
    for thread in threads:
        thread.join()


def counters():
    """Threads on one cache, each until all have come around ten times."""
    cache, lock = OrderedDict(), threading.RLock()
    rounds = [0] * COUNT
    start = threading.Barrier(COUNT)

    def store(n):
        start.wait()
        while any(count < ROUNDS for count in rounds):
            with lock:
                cache[n % 3] = n
                cache.move_to_end(n % 3)
                while len(cache) > 2:
                    cache.popitem(last=False)
            rounds[n] += 1

    run_together(*(lambda n=n: store(n) for n in range(COUNT)))
    assert len(cache) == 2


def job_queue():
    """Workers of huey that ask for the next job without a pause, and callers that ask for results so."""
    import huey

    jobs = huey.MemoryHuey()
    squares = []

    @jobs.task()
    def square(n):
        return n * n

    def work():
        while len(squares) < COUNT:
            task = jobs.dequeue()
            if task is not None:
                jobs.execute(task)

    def ask(n):
        result = square(n)
        while (value := result.get()) is None:
            pass
        squares.append(value)

    run_together(work, work, *(lambda n=n: ask(n + 1) for n in range(COUNT)))
    assert sorted(squares) == [n * n for n in range(1, COUNT + 1)]


def file_lock():
    """Threads that compute with a file locked, each by an open file of its own."""
    folder = tempfile.mkdtemp()
    total = [0]

    def add():
        for _ in range(ROUNDS):
            file = os.open(f"{folder}/lock", os.O_CREAT | os.O_RDWR)
            fcntl.flock(file, fcntl.LOCK_EX)
            before = total[0]
            began = time.perf_counter()
            while time.perf_counter() - began < 0.003:
                pass
            total[0] = before + 1
            fcntl.flock(file, fcntl.LOCK_UN)
            os.close(file)

    run_together(*[add] * COUNT)
    assert total == [COUNT * ROUNDS]


globals()[sys.argv[1]]()
print(sys.argv[1])
