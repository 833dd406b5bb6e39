"""MySQL Connector/Python with ``use_pure=True``: 20 threads wait in SELECT SLEEP at once."""

import os
import threading
import time
import urllib.parse

import mysql.connector

COUNT = 20
MARK = f"/* connector {os.getpid()} */"
url = urllib.parse.urlsplit(os.environ["DHAGA_MARIADB"])


def connect():
    return mysql.connector.connect(
        host=url.hostname,
        port=url.port,
        user=url.username,
        password=url.password or "",
        collation="utf8mb4_general_ci",
        use_pure=True,
        ssl_disabled=True,
    )


def ask(connection, question):
    cursor = connection.cursor()
    cursor.execute(question)
    return cursor.fetchall()


watcher = connect()
connected = threading.Barrier(COUNT)
answers = {}


def work(n):
    connection = connect()
    connected.wait()
    answers[n] = ask(connection, f"select {MARK} {n}, sleep(0.5)")
    connection.close()


threads = [threading.Thread(target=work, args=(n,)) for n in range(COUNT)]
for thread in threads:
    thread.start()
peak = 0
while any(thread.is_alive() for thread in threads):
    question = f"select count(*) from information_schema.processlist where info like 'select {MARK}%'"
    peak = max(peak, ask(watcher, question)[0][0])
    time.sleep(0.02)
watcher.close()
assert answers == {n: [(n, 0)] for n in range(COUNT)}
print("peak", peak, "of", COUNT)
