"""grpcio, which waits in C: 20 threads offload their calls, and a server of its own answers once all of them wait."""

import subprocess
import sys
import threading

import grpc

from dhaga import OffloadPool

COUNT = 20
SERVER = f"""
import sys, threading
from concurrent.futures import ThreadPoolExecutor
import grpc

barrier = threading.Barrier({COUNT})

def echo(request, context):
    barrier.wait(20)
    return request

class Handler(grpc.GenericRpcHandler):
    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(echo)

server = grpc.server(ThreadPoolExecutor({COUNT}))
server.add_generic_rpc_handlers([Handler()])
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
sys.stdin.read()
server.stop(0)
"""
server = subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
channel = grpc.insecure_channel(f"127.0.0.1:{int(server.stdout.readline())}")
call = channel.unary_unary("/test/Echo")
pool = OffloadPool("grpc", threads=COUNT)
answers = {}


def work(n):
    answers[n] = pool.offload(call, b"%d" % n, timeout=20)


threads = [threading.Thread(target=work, args=(n,)) for n in range(COUNT)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
channel.close()
server.communicate()
assert answers == {n: b"%d" % n for n in range(COUNT)}, answers
print("peak", COUNT)
