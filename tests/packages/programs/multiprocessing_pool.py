"""multiprocessing: 200 threads wait for the results of a pool's processes, for a queue, an event and a pipe."""

import multiprocessing
import sys
import threading
import time
from typing import Any

COUNT = 200


def square(n):
    return n * n


def echo(questions, answers, ready):
    ready.set()
    for n in iter(questions.get, None):
        answers.send(-n)


if __name__ == "__main__":
    context: Any = multiprocessing.get_context(sys.argv[1])
    results, waiting, peaks = {}, [], []
    begun = threading.Barrier(COUNT)

    def work(n):
        begun.wait()
        waiting.append(n)
        results[n] = pool.apply(square, (n,))
        peaks.append(len(waiting))
        waiting.remove(n)

    questions, ready = context.Queue(), context.Event()
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=echo, args=(questions, there, ready))
    process.start()
    assert ready.wait(30)
    with context.Pool(2, initializer=time.sleep, initargs=(0.3,)) as pool:
        threads = [threading.Thread(target=work, args=(n,)) for n in range(COUNT)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        pool.close()
        pool.join()
    for n in range(COUNT):
        questions.put(n)
    assert [here.recv() for _ in range(COUNT)] == [-n for n in range(COUNT)]
    questions.put(None)
    process.join(30)
    assert process.exitcode == 0
    assert results == {n: n * n for n in range(COUNT)}
    print("peak", max(peaks))
