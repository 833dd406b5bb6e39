"""kombu: 200 threads drain events, each over a connection of its own, until a producer of a pool feeds them."""

import os
import threading
import uuid

import kombu
from kombu.pools import producers

COUNT = 200
url = os.environ["DHAGA_RABBITMQ"]
exchange = kombu.Exchange(f"dhaga-packages-{uuid.uuid4()}", durable=False, auto_delete=True)
consuming = threading.Barrier(COUNT + 1)
answers = {}


def work(n):
    queue = kombu.Queue(exchange=exchange, routing_key=str(n), exclusive=True)

    def on_message(body, message):
        answers[n] = body["square"]
        message.ack()

    with kombu.Connection(url) as connection, connection.Consumer(queue, callbacks=[on_message]):
        try:
            connection.drain_events(timeout=0.01)
        except TimeoutError:
            consuming.wait()
        connection.drain_events(timeout=20)


threads = [threading.Thread(target=work, args=(n,)) for n in range(COUNT)]
for thread in threads:
    thread.start()
consuming.wait()
peak = COUNT - len(answers)
with kombu.Connection(url) as connection:
    for n in range(COUNT):
        with producers[connection].acquire(block=True) as producer:
            producer.publish({"square": n * n}, exchange=exchange, routing_key=str(n))
for thread in threads:
    thread.join()
producers.clear()
assert answers == {n: n * n for n in range(COUNT)}
print("peak", peak)
