"""curl_cffi, the synchronous client: 50 threads, one session, and a server that answers none until all of them wait."""

import os
import threading

from curl_cffi import requests

COUNT = 50
url = os.environ["HTTP_URL"]
answers = {}

with requests.Session() as session:

    def work(n):
        together = session.get(f"{url}/together", params={"count": COUNT}, timeout=20)
        echo = session.post(f"{url}/echo", data=b"x" * n * 100, timeout=20)
        streamed = session.post(f"{url}/echo", data=b"y" * 10, stream=True, timeout=20)
        parts = b"".join(streamed.iter_content())
        streamed.close()
        answers[n] = (together.status_code, together.json(), len(echo.content), parts)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(COUNT)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
assert answers == {n: (200, {"at once": COUNT}, n * 100, b"y" * 10) for n in range(COUNT)}, answers
print("peak", COUNT)
