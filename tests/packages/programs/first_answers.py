"""Clients of databases and brokers: 20 threads connect and ask, and wait at once for the first answer.

The server counts those that have asked, or that wait for a greeting, and hangs up on all of them once they are 20: what
is shown is that the client parks there, and gets an error of its own. What the protocol says after that needs a server.
"""

import contextlib
import logging
import os
import socket
import sys
import threading

COUNT = 20
name = sys.argv[1]
greeted = name in ("ftplib", "imaplib", "poplib")
logging.disable()


def clickhouse(port):
    from clickhouse_driver import Client

    Client("127.0.0.1", port=port).execute("SELECT 1")


def clickhouse_connect(port):
    import clickhouse_connect

    clickhouse_connect.get_client(host="127.0.0.1", port=port)


def ftplib(port):
    import ftplib

    ftplib.FTP().connect("127.0.0.1", port)


def imaplib(port):
    import imaplib

    imaplib.IMAP4("127.0.0.1", port)


def kafka(port):
    from kafka import KafkaConsumer

    KafkaConsumer(bootstrap_servers=f"127.0.0.1:{port}", bootstrap_timeout_ms=20_000)


def ldap3(port):
    from ldap3 import Connection, Server

    Connection(Server("127.0.0.1", port)).bind()


def memcache(port):
    from pymemcache.client.base import Client

    Client(("127.0.0.1", port)).get("key")


def neo4j(port):
    from neo4j import GraphDatabase

    with GraphDatabase.driver(f"bolt://127.0.0.1:{port}") as driver:
        driver.verify_connectivity()


def oracledb(port):
    import oracledb

    oracledb.enable_thin_mode()  # else the first connect decides the mode, and the others wait for it
    oracledb.connect(user="scott", password="tiger", dsn=f"127.0.0.1:{port}/shop")


def poplib(port):
    import poplib

    poplib.POP3("127.0.0.1", port)


def pymongo(port):
    from pymongo import MongoClient

    with MongoClient("127.0.0.1", port, serverSelectionTimeoutMS=20_000, directConnection=True) as client:
        client.admin.command("ping")


def snowflake(port):
    import warnings

    import snowflake.connector

    warnings.simplefilter("ignore", FutureWarning)
    snowflake.connector.connect(
        user="scott", password="tiger", account="shop", host="127.0.0.1", port=port, protocol="http", login_timeout=20
    )


def stomp(port):
    import stomp

    connection = stomp.Connection([("127.0.0.1", port)], reconnect_attempts_max=1)
    connection.connect(wait=True)


ask = globals()[name]
listener = socket.create_server(("127.0.0.1", 0), backlog=1000)
port = listener.getsockname()[1]
waiting = set()
together = threading.Event()


def serve(connection):
    with connection, contextlib.suppress(OSError):
        if greeted or connection.recv(1):
            waiting.add(connection)
            if len(waiting) >= COUNT:
                together.set()
            together.wait(30)


def accept():
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=[connection], daemon=True).start()


errors = []


def work():
    try:
        ask(port)
    except Exception as error:
        errors.append(error)


threading.Thread(target=accept, daemon=True).start()
threads = [threading.Thread(target=work) for _ in range(COUNT)]
for thread in threads:
    thread.start()
assert together.wait(30), f"only {len(waiting)} wait at once"
print("peak", COUNT, flush=True)
if name in ("kafka", "pymongo", "snowflake"):  # they go on to try for as long as they may
    os._exit(0)
for thread in threads:
    thread.join()
assert len(errors) == COUNT, errors
