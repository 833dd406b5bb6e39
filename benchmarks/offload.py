"""When is a blocking call worth an OS thread, and what do offloaded files cost? `python -m benchmarks.offload`.

100 dhagas make calls that block for some microseconds, first inline and then through `dhaga.offload`. How long do all
calls take, and how long does another dhaga not run meanwhile? The same is measured for a write and fsync. Then files of
`dhaga.open` are compared with files of `open`: a million lines, a million writes, and reads with several buffer sizes.
"""

import argparse
import functools
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import dhaga
from benchmarks.machine import surroundings

CALLERS = 100
BLOCKS = (0, 1, 25, 50, 100, 200, 500, 1_000, 5_000)
"""Microseconds for which the calls should block. The system's timers add about 55 µs to all but the first."""
BUDGET = 1.0
"""Approximate number of seconds of one measurement."""
LINES = 1_000_000
LINE = b"number of the line, and some more text to make it 60 bytes\n"
SIZES = (8, 32, 128, 512, 2048)
"""Sizes of buffers, KB."""


def _least(work: Callable[[], float], rounds: int) -> float:
    return min(work() for _ in range(rounds))


# ---- calls


def _blocks_for(microseconds: int) -> Callable[[], object]:
    return int if not microseconds else lambda: time.sleep(microseconds / 1e6)


def _seconds(work: Callable[[], object], clock: Callable[[], float] = perf_counter) -> float:
    began = clock()
    work()
    return clock() - began


def _crowd(call: Callable[[], object], each: int) -> dict[str, float]:
    """Let all callers make a call `each` times. Returns: µs per call, and how long another dhaga had to wait."""
    gaps: list[float] = []
    done = False

    def makes() -> None:
        for _ in range(each):
            call()
            dhaga.sleep(0)  # without this yield, inline calls would let no other dhaga run

    def stands_by() -> None:
        last = perf_counter()
        while not done:
            dhaga.sleep(0.001)
            now = perf_counter()
            gaps.append(now - last - 0.001)
            last = now

    bystander = dhaga.spawn(stands_by)
    began, cpu = perf_counter(), process_time()
    for caller in [dhaga.spawn(makes) for _ in range(CALLERS)]:
        caller.join()
    seconds, cpu = perf_counter() - began, process_time() - cpu
    done = True
    bystander.join()
    count = each * CALLERS / 1e6
    return {"each": seconds / count, "cpu": cpu / count, "bystander waits": statistics.median(gaps) * 1e6}


def _inline_and_offloaded(call: Callable[[], object], rounds: int, room: float = BUDGET) -> dict[str, Any]:
    alone = statistics.median(_seconds(call) for _ in range(51))
    each = max(1, min(50, int(room / CALLERS / max(alone, 2e-5))))
    runs = [
        (_crowd(call, each), _crowd(lambda: dhaga.offload(call), each))  # in turn, so that both have the same noise
        for _ in range(rounds)
    ]
    return {
        "blocks for": alone * 1e6,
        "inline": min((run[0] for run in runs), key=lambda figures: figures["each"]),
        "offloaded": min((run[1] for run in runs), key=lambda figures: figures["each"]),
    }


def _hops(rounds: int, count: int = 3_000) -> dict[str, dict[str, float]]:
    """Return, for each way, the time and CPU time in µs of an empty call in another thread, for a single caller."""
    pool = dhaga.OffloadPool("benchmark", threads=1)
    executor = ThreadPoolExecutor(1)
    ways: dict[str, Callable[[], object]] = {
        "offload": lambda: dhaga.offload(int),
        "OffloadPool.offload": lambda: pool.offload(int),
        "ThreadPoolExecutor, submit and result": lambda: executor.submit(int).result(),
    }
    with pool, executor:
        return {name: _hop(way, rounds, count) for name, way in ways.items()}


def _hop(way: Callable[[], object], rounds: int, count: int) -> dict[str, float]:
    def many() -> None:
        for _ in range(count):
            way()

    return {
        name: _least(lambda: _seconds(many, clock), rounds) / count * 1e6  # noqa: B023
        for name, clock in (("wall", perf_counter), ("CPU", process_time))
    }


def _fsync(directory: Path, rounds: int) -> dict[str, Any]:
    fd = os.open(directory / "wal", os.O_WRONLY | os.O_CREAT)

    def commits() -> None:
        os.pwrite(fd, bytes(4096), 0)
        os.fsync(fd)

    try:
        return _inline_and_offloaded(commits, rounds)
    finally:
        os.close(fd)


# ---- files


def _read_lines(open_: Callable[..., Any], path: Path, mode: str) -> None:
    with open_(path, mode) as file:
        for _ in file:
            pass


def _write_lines(open_: Callable[..., Any], path: Path, mode: str) -> None:
    line = LINE if "b" in mode else LINE.decode()
    with open_(path, mode) as file:
        for _ in range(LINES):
            file.write(line)


def _beside(work: Callable[..., object], path: Path, mode: str, rounds: int) -> dict[str, float]:
    """Return the CPU time per line in ns, with `open` and with `dhaga.open`, and the median ratio of the rounds."""
    ways = [functools.partial(work, open_, path, mode) for open_ in (open, dhaga.open)]
    pairs = [[_seconds(way, process_time) for way in ways] for _ in range(rounds)]
    plain, ours = (min(column) / LINES * 1e9 for column in zip(*pairs, strict=True))
    return {"open": plain, "dhaga.open": ours, "ratio": statistics.median(mine / other for other, mine in pairs)}


def _megabytes_a_second(open_: Callable[..., Any], path: Path, kilobytes: int) -> float:
    began, buffer = perf_counter(), bytearray(kilobytes * 1024)
    with open_(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    return path.stat().st_size / 1e6 / (perf_counter() - began)


def _files(directory: Path, rounds: int) -> dict[str, Any]:
    path, other = directory / "lines", directory / "written"
    path.write_bytes(LINE * LINES)
    return {
        "a line, ns": {mode: _beside(_read_lines, path, mode, rounds) for mode in ("r", "rb")},
        "a write, ns": {mode: _beside(_write_lines, other, mode, rounds) for mode in ("w", "wb")},
        "read on, MB/s": {
            f"{size} KB": {
                name: -_least(lambda o=o, s=size: -_megabytes_a_second(o, path, s), rounds)  # type: ignore[misc]
                for name, o in (("open", open), ("dhaga.open", dhaga.open))
            }
            for size in SIZES
        },
    }


# ---- the report


def _break_even(calls: list[dict[str, Any]]) -> float | None:
    """Return the shortest blocking time in µs from which on offloaded calls end sooner than inline calls."""
    sooner = None
    for call in reversed(calls):
        if call["offloaded"]["each"] > call["inline"]["each"]:
            break
        sooner = call["blocks for"]
    return sooner


def _print_calls(name: str, call: dict[str, Any]) -> None:
    inline, offloaded = call["inline"], call["offloaded"]
    print(
        f"{name}: blocks {call['blocks for']:.1f} µs; {CALLERS} callers, a call: inline {inline['each']:.1f} µs, "
        f"offloaded {offloaded['each']:.1f} (CPU {offloaded['cpu']:.1f}); a bystander waits "
        f"{inline['bystander waits']:.0f} and {offloaded['bystander waits']:.0f} µs"
    )


def main() -> None:
    """Measure, print, and write the figures where `--json` says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.offload")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="the best or median of so many counts (5)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    options = parser.parse_args()
    dhaga.spawn(int).join()  # from now on the main code parks, too
    with tempfile.TemporaryDirectory() as name:
        found: dict[str, Any] = {
            "where": surroundings(rounds=options.rounds, loop=BUDGET),
            "a hop, µs": _hops(options.rounds),
            "calls": [_inline_and_offloaded(_blocks_for(block), options.rounds) for block in BLOCKS],
            "fsync": _fsync(Path(name), options.rounds),
            "files": _files(Path(name), options.rounds),
        }
    found["break-even, µs"] = _break_even(found["calls"])
    for block, call in zip(BLOCKS, found["calls"], strict=True):
        _print_calls(f"call of {block} µs", call)
    _print_calls("write and fsync", found["fsync"])
    print(
        json.dumps({key: found[key] for key in ("a hop, µs", "break-even, µs", "files")}, indent=1, ensure_ascii=False)
    )
    if options.json:
        options.json.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
