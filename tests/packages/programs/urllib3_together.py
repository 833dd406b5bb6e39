"""urllib3: 200 threads; a pool that blocks when its 20 connections are out, then one wide enough for all."""

import os
import threading

import urllib3

COUNT = 200
url = os.environ["HTTP_URL"]
answers = {}
narrow = urllib3.PoolManager(maxsize=20, block=True)
wide = urllib3.PoolManager(maxsize=COUNT, block=True)


def work(n):
    echo = narrow.request("POST", f"{url}/echo", body=str(n).encode())
    together = wide.request("GET", f"{url}/together", fields={"count": str(COUNT)}, timeout=20)
    try:
        wide.request("GET", f"{url}/never", timeout=0.2, retries=False)
    except urllib3.exceptions.ReadTimeoutError:
        answers[n] = (echo.data, together.json())


threads = [threading.Thread(target=work, args=(n,)) for n in range(COUNT)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert answers == {n: (str(n).encode(), {"at once": COUNT}) for n in range(COUNT)}
narrow.clear()
wide.clear()
print("peak", COUNT)
