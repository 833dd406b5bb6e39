"""gRPC's clients ("plain", "otlp", "pubsub"): a server of its own answers once 20 threads wait for it."""

import subprocess
import sys
import threading

import grpc

COUNT = 20
SERVER = f"""
import sys, threading
from concurrent.futures import ThreadPoolExecutor
import grpc

barrier = threading.Barrier({COUNT})

def empty(request, context):
    barrier.wait(30)
    return b""

class Handler(grpc.GenericRpcHandler):
    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(empty)

server = grpc.server(ThreadPoolExecutor({COUNT}))
server.add_generic_rpc_handlers([Handler()])
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
sys.stdin.read()
server.stop(20).wait()  # where it cancels, as with 0, the core in the client may log that
"""


def plain(address):
    """Call by grpcio itself."""
    call = grpc.insecure_channel(address).unary_unary("/test/Empty")
    return lambda: call(b"", timeout=20)


def otlp(address):
    """Send spans as opentelemetry's exporter does."""
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import SpanExportResult

    exporter = OTLPSpanExporter(endpoint=address, insecure=True, timeout=20)
    return lambda: {SpanExportResult.SUCCESS: b""}[exporter.export([])]


def pubsub(address):
    """Publish as google-cloud-pubsub, on google-api-core."""
    from google.pubsub_v1 import PublisherClient, PubsubMessage
    from google.pubsub_v1.services.publisher.transports import PublisherGrpcTransport

    client = PublisherClient(transport=PublisherGrpcTransport(channel=grpc.insecure_channel(address)))
    return lambda: b"".join(client.publish(topic="t", messages=[PubsubMessage(data=b"x")], timeout=20).message_ids)


server = subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
call = {"plain": plain, "otlp": otlp, "pubsub": pubsub}[sys.argv[1]](f"127.0.0.1:{int(server.stdout.readline())}")
answers = []
threads = [threading.Thread(target=lambda: answers.append(call())) for _ in range(COUNT)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
server.communicate()
assert answers == [b""] * COUNT, answers
print("peak", COUNT)
