"""pika: 200 threads, each with a BlockingConnection of its own, consume; one more feeds them all at once."""

import os
import threading
import uuid

import pika

COUNT = 200
parameters = pika.URLParameters(os.environ["DHAGA_RABBITMQ"])
name = f"dhaga-packages-{uuid.uuid4()}"
consuming = threading.Barrier(COUNT + 1)
answers = {}


def work(n):
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(queue, name, routing_key=str(n))

    def on_message(channel, method, properties, body):
        answers[n] = int(body)
        channel.basic_ack(method.delivery_tag)
        channel.stop_consuming()

    channel.basic_consume(queue, on_message)
    consuming.wait()
    channel.start_consuming()
    connection.close()


feeder = pika.BlockingConnection(parameters)
channel = feeder.channel()
channel.exchange_declare(name, auto_delete=True)
threads = [threading.Thread(target=work, args=(n,)) for n in range(COUNT)]
for thread in threads:
    thread.start()
consuming.wait()
peak = COUNT - len(answers)
for n in range(COUNT):
    channel.basic_publish(name, str(n), str(n * n).encode())
for thread in threads:
    thread.join()
feeder.close()
assert answers == {n: n * n for n in range(COUNT)}
print("peak", peak)
