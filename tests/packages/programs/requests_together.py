"""requests: 200 threads, one session, and a server that answers nobody until all of them wait."""

import os
import threading

import requests
import requests.adapters

COUNT = 200
url = os.environ["HTTP_URL"]
answers = {}

with requests.Session() as session:
    session.mount("http://", requests.adapters.HTTPAdapter(pool_maxsize=COUNT))

    def work(n):
        together = session.get(f"{url}/together", params={"count": COUNT}, timeout=20)
        echo = session.post(f"{url}/echo", data=b"x" * n * 100)
        answers[n] = (together.status_code, together.json(), len(echo.content))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(COUNT)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
assert answers == {n: (200, {"at once": COUNT}, n * 100) for n in range(COUNT)}
print("peak", COUNT)
