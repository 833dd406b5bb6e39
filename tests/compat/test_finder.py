"""What is below ``eventlet.green``, in a process of its own."""

from __future__ import annotations

from tests.compat.test_eventlet import run


def test_the_modules_below_green_are_ours_or_private_copies() -> None:
    code = """
import eventlet.green.socket, eventlet.green.urllib.request, eventlet.green.http.client
from eventlet.green import Queue, os, select, selectors, socket, ssl, subprocess, thread, threading, time, urllib2
from eventlet.green.urllib import parse, request
import dhaga.queue, dhaga.socket, urllib.request
print(Queue is dhaga.queue, socket is eventlet.green.socket is dhaga.socket, socket.__spec__.name)
print(request is urllib2 is eventlet.green.urllib.request, request is urllib.request, parse.quote(" "))
from eventlet.green.http import HTTPStatus, cookies
import http.client
print(int(HTTPStatus.OK), http.client is eventlet.green.http.client, cookies.SimpleCookie)
print(request.socket.socket is dhaga.socket.socket, eventlet.green.http.client.socket.socket is dhaga.socket.socket)
try:
    from eventlet.green import zmq
except ImportError as error:
    print("patched_imports" in str(error))
try:
    import eventlet.green.MySQLdb
except ImportError as error:
    print(error.name)
"""
    assert run(code).splitlines() == [
        "True True dhaga.socket",
        "True False %20",
        "200 False <class 'http.cookies.SimpleCookie'>",
        "True True",
        "True",
        "eventlet.green.MySQLdb",
    ]


def test_green_ssl_has_the_wrap_socket_of_former_pythons() -> None:
    from dhaga.compat import eventlet
    from dhaga.compat.eventlet import green
    from dhaga.compat.eventlet.green import ssl

    assert green.ssl is ssl and ssl.wrap_socket is eventlet.wrap_ssl and ssl.SSLContext is not None
