"""nameko: two services in one runner; 20 calls by RPC wait in one until all are inside, and an event is heard."""

import os
import time
import uuid

import eventlet

eventlet.monkey_patch()

import kombu  # noqa: E402
from nameko.events import EventDispatcher, event_handler  # noqa: E402
from nameko.rpc import RpcProxy, rpc  # noqa: E402
from nameko.runners import ServiceRunner  # noqa: E402
from nameko.standalone.rpc import ClusterRpcProxy  # noqa: E402
from nameko.timer import timer  # noqa: E402

from tests.packages.doors.meeting import meet  # noqa: E402

COUNT = 20
unique = f"dhaga_{uuid.uuid4().hex[:12]}"
config = {"AMQP_URI": os.environ["DHAGA_RABBITMQ"], "max_workers": 2 * COUNT}
heard = eventlet.Event()
ticks = []


class Meeting:
    name = unique
    dispatch = EventDispatcher()

    @rpc
    def meet(self, count):
        return meet(count, lambda: time.sleep(0.02))

    @rpc
    def tell(self, what):
        self.dispatch("told", what)


class Hearing:
    name = f"{unique}_hearing"
    meeting = RpcProxy(unique)

    @event_handler(unique, "told")
    def hear(self, what):
        heard.send((what, self.meeting.meet(1)))

    @timer(interval=0.1)
    def tick(self):
        ticks.append(None)


runner = ServiceRunner(config)
for service in (Meeting, Hearing):
    runner.add_service(service)
runner.start()
try:
    with ClusterRpcProxy(config, timeout=20) as cluster:
        replies = [cluster[unique].meet.call_async(COUNT) for _ in range(COUNT)]
        assert [reply.result() for reply in replies] == [COUNT] * COUNT
        cluster[unique].tell("hello")
        assert heard.wait(30) == ("hello", COUNT)
finally:
    runner.stop()
    with kombu.Connection(config["AMQP_URI"]) as connection, connection.channel() as channel:
        for queue in (f"rpc-{unique}", f"evt-{unique}-told--{unique}_hearing.hear"):
            channel.queue_delete(queue)
        channel.exchange_delete(f"{unique}.events")
assert ticks
print("peak", COUNT)
