"""geventhttpclient: 100 greenlets with one client, and a server that answers nobody until all of them wait."""

import os

import gevent
from gevent.pool import Pool
from geventhttpclient import HTTPClient
from geventhttpclient.useragent import UserAgent

COUNT = 100
url = os.environ["HTTP_URL"]
client = HTTPClient.from_url(url, concurrency=COUNT, connection_timeout=20, network_timeout=20)


def ask(number):
    together = client.get(f"/together?count={COUNT}")
    body = together.read()
    echo = client.post("/echo", body=b"x" * number * 100)
    return together.status_code, bytes(body), len(echo.read())


answers = Pool(COUNT).map(ask, range(COUNT))
assert answers == [(200, b'{"at once": %d}' % COUNT, number * 100) for number in range(COUNT)]
client.close()
assert UserAgent().urlopen(f"{url}/alone?count=1").content == b'{"at once": 1}'

slow = HTTPClient.from_url(url, network_timeout=0.1)
try:
    slow.get("/never")
except TimeoutError:
    pass
else:
    raise AssertionError("the answer that never comes is late")
gevent.sleep(0)
print("peak", COUNT)
