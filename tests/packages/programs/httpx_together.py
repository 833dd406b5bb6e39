"""httpx, the synchronous client: 200 threads, one client, and a server that answers nobody until all of them wait."""

import os
import threading

import httpx

COUNT = 200
url = os.environ["HTTP_URL"]
answers = {}

with httpx.Client(limits=httpx.Limits(max_connections=COUNT), timeout=20) as client:

    def work(n):
        together = client.get(f"{url}/together", params={"count": COUNT})
        echo = client.post(f"{url}/echo", content=b"x" * n * 100)
        answers[n] = (together.status_code, together.json(), len(echo.content))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(COUNT)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
assert answers == {n: (200, {"at once": COUNT}, n * 100) for n in range(COUNT)}
print("peak", COUNT)
