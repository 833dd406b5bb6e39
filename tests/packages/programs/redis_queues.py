"""redis-py: 200 threads wait in BLPOP, over one client, until they are fed."""

import os
import threading
import time
import uuid

import redis

COUNT = 200
name = f"dhaga-packages-{uuid.uuid4()}"
client = redis.Redis.from_url(os.environ["DHAGA_REDIS"], max_connections=COUNT + 10, client_name=name)
answers = {}


def work(n):
    _, value = client.blpop(f"{name}-{n}", timeout=20)
    answers[n] = int(value)
    assert client.incr(name) <= COUNT


threads = [threading.Thread(target=work, args=(n,)) for n in range(COUNT)]
for thread in threads:
    thread.start()
peak = 0
while peak < COUNT:
    peak = sum(1 for c in client.client_list() if c["name"] == name and c["cmd"] == "blpop" and "b" in c["flags"])
    time.sleep(0.01)
for n in range(COUNT):
    client.rpush(f"{name}-{n}", n * n)
for thread in threads:
    thread.join()
assert answers == {n: n * n for n in range(COUNT)}
assert int(client.getdel(name)) == COUNT
client.close()
print("peak", peak)
