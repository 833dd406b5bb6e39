"""xmlrpc: 200 ServerProxies call a server with a thread a request, all of them at once."""

import socketserver
import threading
import xmlrpc.client
import xmlrpc.server

COUNT = 200
called = threading.Barrier(COUNT)
answers = {}


class Server(socketserver.ThreadingMixIn, xmlrpc.server.SimpleXMLRPCServer):
    request_queue_size = 1000


def square(n):
    called.wait()
    return n * n


def work(n):
    with xmlrpc.client.ServerProxy(f"http://127.0.0.1:{server.server_address[1]}") as proxy:
        answers[n] = proxy.square(n)
        try:
            proxy.nothing()
        except xmlrpc.client.Fault as fault:
            assert "nothing" in fault.faultString


with Server(("127.0.0.1", 0), logRequests=False) as server:
    server.register_function(square)
    serving = threading.Thread(target=server.serve_forever, args=(0.05,))
    serving.start()
    threads = [threading.Thread(target=work, args=(n,)) for n in range(COUNT)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    server.shutdown()
    serving.join()
assert answers == {n: n * n for n in range(COUNT)}
print("peak", COUNT)
