"""Brokers: 20 subscribers wait at once, each in a thread of its own, for a message that is published once all do."""

import asyncio
import os
import sys
import threading
import urllib.parse
import uuid

COUNT = 20
topic = f"dhaga-packages-{uuid.uuid4()}"
ready = threading.Barrier(COUNT + 1)
heard = []


def paho():
    from paho.mqtt import client as mqtt

    url = urllib.parse.urlsplit(os.environ["DHAGA_MQTT"])

    def connect(**callbacks):
        client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
        for name, callback in callbacks.items():
            setattr(client, name, callback)
        client.connect(url.hostname, url.port)
        return client

    def on_message(client, data, message):
        heard.append(message.payload)
        client.disconnect()

    def listen():
        client = connect(
            on_connect=lambda client, *rest: client.subscribe(topic),
            on_subscribe=lambda *rest: threading.Thread(target=ready.wait).start(),
            on_message=on_message,
        )
        client.loop_forever()

    def publish():
        client = connect()
        client.loop_start()
        client.publish(topic, b"all").wait_for_publish(20)
        client.disconnect()
        client.loop_stop()

    return listen, publish


def nats():
    import nats

    url = os.environ["DHAGA_NATS"]

    async def subscribe():
        client = await nats.connect(url)
        subscription = await client.subscribe(topic)
        await client.flush()
        threading.Thread(target=ready.wait).start()
        heard.append((await subscription.next_msg(20)).data)
        await client.close()

    async def say():
        client = await nats.connect(url)
        await client.publish(topic, b"all")
        await client.close()

    return lambda: asyncio.run(subscribe()), lambda: asyncio.run(say())


listen, publish = globals()[sys.argv[1]]()
threads = [threading.Thread(target=listen) for _ in range(COUNT)]
for thread in threads:
    thread.start()
ready.wait(30)
publish()
for thread in threads:
    thread.join()
assert heard == [b"all"] * COUNT
print("peak", COUNT)
