"""concurrent.futures.ThreadPoolExecutor(1000): a thousand calls at once, map, as_completed, wait, errors, cancels."""

import concurrent.futures
import threading
import time

COUNT = 1000
together = threading.Barrier(COUNT)
names = set()


def work(n):
    names.add(threading.current_thread().name)
    together.wait()
    time.sleep(0.05)
    if n == 13:
        raise ValueError(n)
    return n * n


with concurrent.futures.ThreadPoolExecutor(COUNT, thread_name_prefix="pool") as pool:
    futures = {pool.submit(work, n): n for n in range(COUNT)}
    for future in concurrent.futures.as_completed(futures, timeout=30):
        n = futures[future]
        assert n == 13 and isinstance(future.exception(), ValueError) if n == 13 else future.result() == n * n
    assert len(names) == COUNT and all(name.startswith("pool_") for name in names)
    start = time.monotonic()
    assert list(pool.map(lambda n: time.sleep(0.2) or -n, range(COUNT))) == [-n for n in range(COUNT)]
    assert time.monotonic() - start < 100  # one by one: 200
    late = [pool.submit(time.sleep, 0.3) for _ in range(COUNT + 10)]
    while sum(future.running() for future in late) < COUNT:
        time.sleep(0.01)
    assert sum(future.cancel() for future in late) == 10
    done, not_done = concurrent.futures.wait(late, timeout=30)
    assert len(done) == COUNT + 10 and not not_done
print("peak", COUNT)
