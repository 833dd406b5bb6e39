"""Notes that a reader of the figures needs, each with the figures that support it."""

from __future__ import annotations

import statistics

from benchmarks.file_io.latency import BUDGET
from benchmarks.file_io.report import MEDIAN, TAIL, Round, all_waits, kept, median_of, milliseconds, percentile, ratios
from benchmarks.file_io.write_paths import PLAIN_INTERVAL, SHARED, TWO_CALLS, URGENT

THE_LOCK = """\
The interpreter lock stands in the way: the thread that writes needs it to begin, and again after each system call. It
asks for it only after the switch interval, 5 ms in which no thread released it; and a scheduler whose dhagas compute
does release it, every 0.25 ms for a microsecond, to look for events. So a call waited until it won that race, a second
at times. What was done, in the library and for all ways alike: while a call is under way the interval is 0.1 ms, while
one of a HIGH dhaga is, 0.02 ms; and threads of a pool wait without the 0.05 ms that Linux adds by default. In
the log: it writes and syncs by one system call (RWF_DSYNC) instead of two."""


def notes(rounds: list[Round]) -> list[str]:
    """Return all notes."""
    return [
        THE_LOCK.replace("\n", " "),
        f"With all that, {URGENT}, busy: {told(rounds, URGENT)}. By two system calls: {told(rounds, TWO_CALLS)}. With "
        f"Python's own switch interval: {told(rounds, PLAIN_INTERVAL)}. What it costs the others: the computing dhagas "
        f"keep {kept(rounds, URGENT):.0%} of the turns that they have without writes, with Python's own interval "
        f"{kept(rounds, PLAIN_INTERVAL):.0%}.",
        "An inline write waits for no turn, as there is no other: all dhagas of the scheduler wait with its caller, "
        f"which the others' turns show. A {SHARED} stands in line behind the calls of others. A NORMAL caller has its "
        "next turn after all the others, which compute 50 µs each.",
        "All ways but the log overwrite the records of a file that has its size; the log's segments grow, which asks "
        "more of the file system with each write.",
        f"A block of samples ends after {BUDGET} s: where one write takes long, there are fewer.",
        rocksdb(rounds),
    ]


def told(rounds: list[Round], way: str) -> str:
    """Return the waits of a way in the busy state as text."""
    waits = all_waits(rounds, way, "busy")
    median, tail = (milliseconds(percentile(waits, which)) for which in (MEDIAN, TAIL))
    times = [f"{statistics.median(ratios(rounds, way, which)):.2f}" for which in (MEDIAN, TAIL)]
    return f"median {median} ms ({times[0]} times idle), p99 {tail} ({times[1]}), worst {milliseconds(max(waits))}"


def rocksdb(rounds: list[Round]) -> str:
    """Return the note about RocksDB's puts."""
    if rounds[0]["puts"] is None:
        return "RocksDB is left out: rocksdict is not installed."
    inline, shared, together, one_by_one = (
        median_of(rounds, "puts", *keys)
        for keys in (
            ("buffered", "inline", "1"),
            ("buffered", "shared offload", "1"),
            ("synced", "shared offload", "100"),
            ("synced", "inline", "100"),
        )
    )
    return (
        "RocksDB, published: puts through a pool of threads 46 % slower than inline. Here, buffered and one after the "
        f"other, {1 - shared / inline:.1%} slower: a put takes {1e6 / inline:.0f} µs, and a hop to a thread is "
        f"many times that. Synced puts of 100 dhagas at once, through the shared pool: {together / one_by_one:.1f} "
        "times the rate of inline ones (the puts of several threads can share a sync; inline there is one at a time)."
    )
