"""Servers and their clients in one program: 20 clients wait, and are answered once all of them do."""

import socket
import sys
import threading
import urllib.request

COUNT = 20
barrier = threading.Barrier(COUNT)


def aiosmtpd():
    import asyncio
    import smtplib

    from aiosmtpd.controller import Controller

    everybody = asyncio.Barrier(COUNT)

    class Handler:
        async def handle_DATA(self, server, session, envelope):
            await asyncio.wait_for(everybody.wait(), 30)
            return "250 all are here"

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    controller = Controller(Handler(), hostname="127.0.0.1", port=port)
    controller.start()

    def send(n):
        with smtplib.SMTP("127.0.0.1", port, local_hostname="localhost", timeout=20) as smtp:
            return smtp.sendmail("one@example.org", f"{n}@example.org", "Subject: hello\n\nHello.") == {}

    yield send
    controller.stop()


def dns():
    import dns.message
    import dns.resolver
    import dns.rrset

    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 0))

    def serve():
        asked = [server.recvfrom(4096) for _ in range(COUNT)]
        for data, address in asked:
            query = dns.message.from_wire(data)
            answer = dns.message.make_response(query)
            answer.answer.append(dns.rrset.from_text(query.question[0].name, 60, "IN", "A", "192.0.2.1"))
            server.sendto(answer.to_wire(), address)

    threading.Thread(target=serve).start()
    resolver = dns.resolver.Resolver(configure=False)
    resolver.nameservers, resolver.port, resolver.lifetime = ["127.0.0.1"], server.getsockname()[1], 20
    yield lambda n: [str(each) for each in resolver.resolve(f"n{n}.example.", "A")] == ["192.0.2.1"]
    server.close()


def waitress():
    from waitress import create_server

    def app(environ, start_response):
        barrier.wait(30)
        start_response("200 OK", [("Content-Length", "2")])
        return [b"ok"]

    server = create_server(app, port=0, host="127.0.0.1", threads=COUNT)
    threading.Thread(target=server.run, daemon=True).start()
    yield lambda n: urllib.request.urlopen(f"http://127.0.0.1:{server.effective_port}/").read() == b"ok"


def websockets():
    from websockets.sync.client import connect
    from websockets.sync.server import serve

    def handle(connection):
        message = connection.recv()
        barrier.wait(30)
        connection.send(message.upper())

    with serve(handle, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        port = server.socket.getsockname()[1]

        def ask(n):
            with connect(f"ws://127.0.0.1:{port}") as connection:
                connection.send(f"n{n}")
                return connection.recv() == f"N{n}"

        yield ask
        server.shutdown()
        thread.join()


def zmq():
    import zmq

    context = zmq.Context.instance()
    router = context.socket(zmq.ROUTER)
    port = router.bind_to_random_port("tcp://127.0.0.1")

    def serve():
        asked = [router.recv_multipart() for _ in range(COUNT)]
        for peer, empty, body in asked:
            router.send_multipart([peer, empty, body])

    def ask(n):
        with context.socket(zmq.REQ) as sock:
            sock.connect(f"tcp://127.0.0.1:{port}")
            sock.send_json(n)
            return sock.recv_json() == n

    threading.Thread(target=serve).start()
    yield ask
    router.close()
    context.term()


answers = []


def work(ask, n):
    answers.append(ask(n))


for ask in globals()[sys.argv[1]]():
    threads = [threading.Thread(target=work, args=(ask, n)) for n in range(COUNT)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
assert answers == [True] * COUNT, answers
print("peak", COUNT)
