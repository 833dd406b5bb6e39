"""psycopg 3: as many threads as the server takes wait in pg_sleep, each over a connection of its own."""

import os
import threading
import time

import psycopg
import psycopg.errors

url = os.environ["DHAGA_POSTGRES"]
watcher = psycopg.connect(url)
watcher.autocommit = True
with watcher.cursor() as cursor:
    cursor.execute("select pg_advisory_lock(hashtext('dhaga packages'))")  # another run takes as many, too
    cursor.execute("select current_setting('max_connections')::int")
    count = min(200, cursor.fetchone()[0] - 30)
connected = threading.Barrier(count)
answers = {}


def work(n):
    connection = psycopg.connect(url, application_name="packages")
    with connection.transaction(), connection.cursor() as cursor:
        cursor.execute("create temporary table numbers (n int)")
        connected.wait()
        cursor.execute("insert into numbers select %s from pg_sleep(0.5) returning n", (n,))
        answers[n] = cursor.fetchall()
    try:
        with connection.transaction(), connection.cursor() as cursor:
            cursor.execute("select 1 / 0")
    except psycopg.errors.DivisionByZero:
        answers[n].append("an error")
    connection.close()


threads = [threading.Thread(target=work, args=(n,)) for n in range(count)]
for thread in threads:
    thread.start()
peak = 0
while any(thread.is_alive() for thread in threads):
    with watcher.cursor() as cursor:
        cursor.execute(
            "select count(*) from pg_stat_activity where application_name = 'packages' and wait_event = 'PgSleep'"
        )
        peak = max(peak, cursor.fetchone()[0])
    time.sleep(0.02)
for thread in threads:
    thread.join()
watcher.close()
assert answers == {n: [(n,), "an error"] for n in range(count)}
print("peak", peak, "of", count)
