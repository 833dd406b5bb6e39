"""psycogreen: 20 greenlets of gevent or eventlet sleep in PostgreSQL; a Timeout ends one that sleeps for long."""

import os
import sys
import time

import psycopg2

COUNT = 20
url = os.environ["DHAGA_POSTGRES"]


def sleep(number):
    with psycopg2.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(0.5), %s", (number,))
        found = cursor.fetchone()[1]
    connection.close()
    return found


def sleep_for_long():
    connection = psycopg2.connect(url)
    try:
        connection.cursor().execute("SELECT pg_sleep(10)")
    finally:
        connection.close()


began = time.monotonic()
if sys.argv[1] == "gevent":
    import gevent
    import psycogreen.gevent

    psycogreen.gevent.patch_psycopg()
    jobs = [gevent.spawn(sleep, number) for number in range(COUNT)]
    gevent.joinall(jobs, raise_error=True)
    results = [job.value for job in jobs]
    Timeout = gevent.Timeout
else:
    import eventlet
    import psycogreen.eventlet

    psycogreen.eventlet.patch_psycopg()
    results = list(eventlet.GreenPool(COUNT).imap(sleep, range(COUNT)))
    Timeout = eventlet.Timeout
took = time.monotonic() - began
assert results == list(range(COUNT))
assert took < COUNT * 0.5 / 2, took
late = None
try:
    with Timeout(0.2) as timeout:
        sleep_for_long()
except Timeout as error:
    late = error
assert late is timeout and time.monotonic() - began < took + 5
print("peak", COUNT)
