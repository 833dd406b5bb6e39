"""PyMySQL: as many threads as the server takes wait in SELECT SLEEP, each over a connection of its own."""

import os
import threading
import time
import urllib.parse

import pymysql

url = urllib.parse.urlsplit(os.environ["DHAGA_MARIADB"])


def connect():
    return pymysql.connect(
        host=url.hostname,
        port=url.port,
        user=url.username,
        password=url.password or "",
        database=url.path[1:],
        ssl_disabled=True,
    )


watcher = connect()
with watcher.cursor() as cursor:
    cursor.execute("select get_lock('dhaga packages', 60)")  # another run takes as many, too
    cursor.execute("select @@max_connections")
    count = min(200, cursor.fetchone()[0] - 31)
answers = {}
connected = threading.Barrier(count)


def work(n):
    with connect() as connection, connection.cursor() as cursor:
        connected.wait()
        cursor.execute("select /* packages */ %s, sleep(0.5)", (n,))
        answers[n] = cursor.fetchall()
        try:
            cursor.execute("select nothing from nowhere")
        except pymysql.err.ProgrammingError:
            connection.rollback()


threads = [threading.Thread(target=work, args=(n,)) for n in range(count)]
start = time.monotonic()
for thread in threads:
    thread.start()
peak = 0
while any(thread.is_alive() for thread in threads):
    with watcher.cursor() as cursor:
        cursor.execute("select count(*) from information_schema.processlist where info like 'select /* packages */%'")
        peak = max(peak, cursor.fetchone()[0])
    time.sleep(0.02)
for thread in threads:
    thread.join()
watcher.close()
assert answers == {n: ((n, 0),) for n in range(count)}
print("peak", peak, "of", count)
