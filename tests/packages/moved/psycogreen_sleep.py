"""psycogreen: 20 greenlets of gevent or eventlet sleep in PostgreSQL; a Timeout ends one that sleeps for long."""

import os
import sys
import time

import psycopg2

COUNT = 20
url = os.environ["DHAGA_POSTGRES"]


asleep, most = set(), 0


def sleep(number):
    global most
    asleep.add(number)
    most = max(most, len(asleep))
    with psycopg2.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(0.1), %s", (number,))
        found = cursor.fetchone()[1]
    connection.close()
    asleep.remove(number)
    return found


def sleep_for_long():
    connection = psycopg2.connect(url)
    try:
        connection.cursor().execute("SELECT pg_sleep(60)")
    finally:
        connection.close()


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
assert results == list(range(COUNT))
assert most == COUNT, most
began = time.monotonic()
late = None
try:
    with Timeout(0.2) as timeout:
        sleep_for_long()
except Timeout as error:
    late = error
assert late is timeout and time.monotonic() - began < 30
print("peak", COUNT)
