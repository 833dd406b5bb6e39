"""confluent-kafka: 20 consumers wait for a message at once, each ``poll`` offloaded, because librdkafka waits in C.

The brokers are librdkafka's own mock cluster, in the producer.
"""

import threading

from confluent_kafka import Consumer, Producer, TopicPartition

from dhaga import OffloadPool

COUNT = 20
TOPIC = "packages"
SECONDS = 20

pool = OffloadPool("kafka", threads=COUNT)
producer = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 0})
broker = next(iter(pool.offload(producer.list_topics, TOPIC, SECONDS).brokers.values()))
begun = threading.Barrier(COUNT + 1)
received = []


def poll(consumer):
    begun.wait()  # each thread of the pool is in here, and then in librdkafka, before the message is sent
    return consumer.poll(SECONDS)


def work():
    consumer = Consumer({"bootstrap.servers": f"{broker.host}:{broker.port}", "group.id": "packages", "log_level": 0})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    received.append(pool.offload(poll, consumer).value())
    pool.offload(consumer.close)


threads = [threading.Thread(target=work) for _ in range(COUNT)]
for thread in threads:
    thread.start()
begun.wait()
producer.produce(TOPIC, b"together", partition=0)
pool.offload(producer.flush, SECONDS)
for thread in threads:
    thread.join()
assert received == [b"together"] * COUNT, received
print("peak", COUNT)
