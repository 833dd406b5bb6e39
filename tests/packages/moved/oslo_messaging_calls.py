"""oslo.messaging: 20 calls by RPC to a server with the eventlet executor, whose method waits until all are inside."""

import os
import sys
import time
import uuid
import warnings

import eventlet

eventlet.monkey_patch()
warnings.simplefilter("ignore", DeprecationWarning)

import oslo_messaging  # noqa: E402
from oslo_config import cfg  # noqa: E402

from tests.packages.doors.meeting import meet  # noqa: E402

COUNT = 20


class Endpoint:
    def meet(self, context, count):
        return meet(count, lambda: time.sleep(0.02))

    def fail(self, context):
        raise ValueError("as it shall")


cfg.CONF([])
url = sys.argv[1] if "://" in sys.argv[1] else os.environ["DHAGA_RABBITMQ"].replace("amqp:", "rabbit:", 1)
transport = oslo_messaging.get_rpc_transport(cfg.CONF, url.removesuffix("%2F"))
topic = f"dhaga-{uuid.uuid4().hex[:12]}"
target = oslo_messaging.Target(topic=topic, server="one")
server = oslo_messaging.get_rpc_server(transport, target, [Endpoint()], executor="eventlet")
server.start()
client = oslo_messaging.get_rpc_client(transport, oslo_messaging.Target(topic=topic), timeout=20)
pool = eventlet.GreenPool(COUNT)
assert set(pool.imap(lambda _: client.call({}, "meet", count=COUNT), range(COUNT))) == {COUNT}
try:
    client.call({}, "fail")
except (ValueError, oslo_messaging.RemoteError) as error:
    assert "as it shall" in str(error)
else:
    raise AssertionError("the error of the method did not come back")
server.stop()
server.wait()
transport.cleanup()
print("peak", COUNT)
