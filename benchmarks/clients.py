"""CPU time of one operation of a database client, on dhagas, gevent and threads: `python -m benchmarks.clients`.

Each worker does one operation after the other, against PostgreSQL, MariaDB and Redis (DHAGA_POSTGRES, DHAGA_MARIADB and
DHAGA_REDIS, each a URL). All rivals run the same program, with threads of `threading`. Dhaga and gevent first patch the
standard library; gevent also uses psycogreen. Each sample is taken in a new process on one CPU. The rivals take turns
within a round, and the figures are medians over the rounds. The CPU time of the servers is not measured.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from time import perf_counter, process_time
from urllib.parse import urlsplit

from benchmarks.machine import cpus, surroundings

RIVALS = "dhaga", "gevent", "threads"
ROUNDS = 5
SECONDS = 1.0
WARM_UP = 0.3
PACKAGES = "psycogreen", "psycopg2-binary", "psycopg", "pymysql", "redis", "sqlalchemy"
PLACES = 20
"""Connections that SQLAlchemy's pool keeps."""

WORKS = {
    "psycopg2": (20,),
    "psycopg": (20,),
    "pymysql": (20,),
    "redis": (20, 100),
    "sqlalchemy": (20, 100),
}
"""For each work, the numbers of workers with which it is measured."""

TARGET = 1.0
"""The target: an operation takes at most this many times the CPU time that it takes with gevent."""

Samples = dict[str, dict[str, list[dict[str, float]]]]
"""For each work and number of workers, and for each rival, one sample per round."""

POSTGRES = os.environ.get("DHAGA_POSTGRES", "postgresql://postgres@127.0.0.1:5432/postgres")
MARIADB = os.environ.get("DHAGA_MARIADB", "mysql://root@127.0.0.1:3306/test")
REDIS = os.environ.get("DHAGA_REDIS", "redis://127.0.0.1:6379/0")

Operation = Callable[[], object]


# ---- what a worker does


def _psycopg2() -> Callable[[], Operation]:
    import psycopg2

    def connected() -> Operation:
        connection = psycopg2.connect(POSTGRES)
        connection.autocommit = True
        cursor = connection.cursor()

        def ask() -> object:
            cursor.execute("select 1")
            return cursor.fetchone()

        return ask

    return connected


def _psycopg() -> Callable[[], Operation]:
    import psycopg

    def connected() -> Operation:
        cursor = psycopg.connect(POSTGRES, autocommit=True).cursor()
        return lambda: cursor.execute("select 1").fetchone()

    return connected


def _pymysql() -> Callable[[], Operation]:
    import pymysql  # type: ignore[import-untyped]

    def connected() -> Operation:
        at = urlsplit(MARIADB)
        user, password = at.username or "root", at.password or ""
        connection = pymysql.connect(
            host=at.hostname, port=at.port or 3306, user=user, password=password, database=at.path.strip("/")
        )
        cursor = connection.cursor()

        def ask() -> object:
            cursor.execute("select 1")
            return cursor.fetchone()

        return ask

    return connected


def _redis() -> Callable[[], Operation]:
    import redis

    client = redis.Redis.from_url(REDIS)
    return lambda: lambda: client.incr("dhaga-benchmark-clients")


def _sqlalchemy() -> Callable[[], Operation]:
    import sqlalchemy

    address = POSTGRES.replace("postgresql:", "postgresql+psycopg2:", 1)
    engine = sqlalchemy.create_engine(address, pool_size=PLACES, max_overflow=0, pool_timeout=600)
    question = sqlalchemy.text("select 1")

    def ask() -> object:
        with engine.connect() as connection:
            return connection.execute(question).scalar()

    return lambda: ask


CONNECTED = {
    "psycopg2": _psycopg2,
    "psycopg": _psycopg,
    "pymysql": _pymysql,
    "redis": _redis,
    "sqlalchemy": _sqlalchemy,
}


# ---- a sample, in a process of its own


def _patch(rival: str) -> None:
    if rival == "dhaga":
        import dhaga.monkey

        dhaga.monkey.patch()
    elif rival == "gevent":
        from gevent import monkey
        from psycogreen.gevent import patch_psycopg

        monkey.patch_all()
        patch_psycopg()


def _sample(rival: str, work: str, workers: int) -> dict[str, float]:
    """Let the workers work for some time. Returns: µs of CPU time per operation, and operations per second."""
    _patch(rival)
    import threading
    import time

    connected = CONNECTED[work]()
    counts = [0] * workers
    over = False

    def fn(place: int) -> None:
        operation = connected()
        while not over:
            operation()
            counts[place] += 1

    threads = [threading.Thread(target=fn, args=(place,)) for place in range(workers)]
    for each in threads:
        each.start()
    while sum(counts) < 2 * workers:
        time.sleep(0.01)
    time.sleep(WARM_UP)
    began, began_cpu, before = perf_counter(), process_time(), sum(counts)
    time.sleep(SECONDS)
    ended, ended_cpu, done = perf_counter(), process_time(), sum(counts) - before
    over = True
    for each in threads:
        each.join()
    return {"cpu": (ended_cpu - began_cpu) / done * 1e6, "rate": done / (ended - began)}


# ---- all of them


def _measure(rival: str, work: str, workers: int) -> dict[str, float]:
    pinned = cpus()
    place = ["taskset", "--cpu-list", str(pinned[0])] if pinned else []
    command = [*place, sys.executable, "-m", "benchmarks.clients", "sample", rival, work, str(workers)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return dict(json.loads(done.stdout))


def ratios(rivals: dict[str, list[dict[str, float]]], other: str) -> list[float]:
    """Return Dhaga's CPU time divided by another rival's, round by round."""
    return [ours["cpu"] / theirs["cpu"] for ours, theirs in zip(rivals["dhaga"], rivals[other], strict=True)]


def _report(name: str, rivals: dict[str, list[dict[str, float]]]) -> bool:
    """Print the medians. Returns: whether the target is reached."""
    for rival, each in rivals.items():
        cpu, rate = (statistics.median(sample[key] for sample in each) for key in ("cpu", "rate"))
        print(f"{name:24} {rival:8} {cpu:7.1f} µs of CPU, {rate:8,.0f}/s", flush=True)
    return round(statistics.median(ratios(rivals, "gevent")), 2) <= TARGET


def main() -> None:
    """Measure, print, and write the samples where `--json` says; exit status 1 if the target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clients")
    parser.add_argument("works", nargs="*", metavar="WORK", default=list(WORKS), help=", ".join(WORKS))
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help=f"rounds ({ROUNDS})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples there")
    options = parser.parse_args()
    samples: Samples = {}
    missed = []
    for work in options.works:
        for workers in WORKS[work]:
            name = f"{work}, {workers} workers"
            rivals = samples[name] = {rival: [] for rival in RIVALS}
            for _, rival in product(range(options.rounds), RIVALS):
                rivals[rival].append(_measure(rival, work, workers))
            if not _report(name, rivals):
                missed.append(name)
    print(f"target, at most {TARGET:g} x gevent: {'missed by ' + '; '.join(missed) if missed else 'reached'}")
    if options.json:
        results = {"where": surroundings(*PACKAGES, rounds=options.rounds), "samples": samples}
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["sample"]:
        print(json.dumps(_sample(sys.argv[2], sys.argv[3], int(sys.argv[4]))))
    else:
        main()
