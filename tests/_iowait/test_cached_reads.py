"""Data in the page cache is read by the caller; what is not there is read by a thread, and nothing is read twice."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dhaga
from dhaga._iowait import cached_reads
from dhaga.testing import cancel_at_every_park, settle
from tests.kit.files import LINES, Occupied

WHOLE = "".join(LINES).encode()

pytestmark = pytest.mark.skipif(not cached_reads.NOWAIT, reason="this system has no RWF_NOWAIT")


class Cache:
    """Stands for the page cache: it holds the bytes below ``end``, and a read there is counted."""

    def __init__(self, end: int) -> None:
        self.end = end
        self.hits = 0

    def preadv(self, fd: int, buffers: list[Any], offset: int, flags: int) -> int:
        assert (offset, flags) == (-1, os.RWF_NOWAIT)
        position = os.lseek(fd, 0, os.SEEK_CUR)
        size = len(buffers[0])
        if position < os.fstat(fd).st_size:
            size = min(size, self.end - position)
            if size <= 0:
                raise BlockingIOError
        self.hits += 1
        with memoryview(buffers[0])[:size] as part:
            return os.readv(fd, [part])


@pytest.fixture
def cached(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Cache]:
    def set_up(end: int) -> Cache:
        cache = Cache(end)
        monkeypatch.setattr(cached_reads, "preadv", cache.preadv)
        return cache

    return set_up


def test_cached_data_is_read_while_all_threads_are_busy(
    path: Path, pool: dhaga.OffloadPool, cached: Callable[[int], Cache]
) -> None:
    cache = cached(len(WHOLE))
    f = dhaga.spawn(dhaga.open, path, "rb", pool=pool).result(30)
    with Occupied(pool):
        reads = [lambda: f.readline(), lambda: f.read(5000), lambda: f.readinto(bytearray(300_000))]
        assert [dhaga.spawn(read).result(30) for read in reads] == [
            LINES[0].encode(),
            WHOLE[len(LINES[0]) : len(LINES[0]) + 5000],
            300_000,
        ]
        assert dhaga.spawn(f.read).result(30) == WHOLE[len(LINES[0]) + 305_000 :]
    assert cache.hits == 3
    dhaga.spawn(f.close).join()


READS: dict[str, Callable[[Any], bytes]] = {
    "all": lambda f: f.read(),
    "readall": lambda f: f.read(7) + f.read(-1),
    "lines": lambda f: b"".join(f),
    "pieces": lambda f: b"".join(iter(lambda: f.read(7_001), b"")),
}


@pytest.mark.parametrize("end", [0, 1, 4096, 20_000, 29_999, 30_000])
@pytest.mark.parametrize(
    ("way", "buffering"),
    # Without a buffer each byte of a line is a read.
    [(way, size) for way in READS for size in (0, -1, 5000) if way != "lines" or size],
)
def test_whatever_is_cached_each_byte_is_read_once(
    tmp_path: Path, cached: Callable[[int], Cache], way: str, end: int, buffering: int
) -> None:
    file = tmp_path / "part"
    file.write_bytes(WHOLE[:30_000])
    cached(end)

    def reads() -> bytes:
        with dhaga.open(file, "rb", buffering) as f:
            return READS[way](f)

    assert dhaga.spawn(reads).result(30) == WHOLE[:30_000]


def test_a_raw_read_of_a_file_that_is_cached_in_part_is_not_short(path: Path, cached: Callable[[int], Cache]) -> None:
    cached(1000)

    def reads() -> list[bytes]:
        with dhaga.open(path, "rb", 0) as f:
            return [f.read(5000), f.read(2_000_000), f.read(10), f.read()]

    assert dhaga.spawn(reads).result(30) == [WHOLE[:5000], WHOLE[5000:], b"", b""]


def test_a_file_that_grows_is_read_to_its_new_end(path: Path) -> None:
    def reads() -> bytes:
        with dhaga.open(path, "rb") as f:
            f.read()
            with open(path, "ab") as more:
                more.write(b"more")
            return f.read()

    assert dhaga.spawn(reads).result(30) == b"more"


@pytest.mark.parametrize("number", cached_reads.UNSUPPORTED)
def test_a_file_system_that_refuses_is_asked_once(path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    asked: list[int] = []

    def refuses(fd: int, *_: object) -> int:
        asked.append(fd)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(cached_reads, "preadv", refuses)

    def reads() -> bytes:
        with dhaga.open(path, "rb", 0) as f:
            return f.read(9) + f.read(9) + f.read()

    assert dhaga.spawn(reads).result(30) == WHOLE and len(asked) == 1


def test_an_error_of_the_disk_is_raised(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(cached_reads, "preadv", fails)

    def reads() -> bytes:
        with dhaga.open(path, "rb") as f:
            return f.read(9)

    with pytest.raises(OSError, match="Input/output error"):
        dhaga.spawn(reads).result(30)


def test_a_coroutine_gets_park_error_whatever_is_cached(path: Path, cached: Callable[[int], Cache]) -> None:
    cache = cached(len(WHOLE))

    async def main() -> None:
        f = await dhaga.spawn(dhaga.open, path, "rb")
        with pytest.raises(dhaga.ParkError):
            f.read(10)
        await dhaga.spawn(f.close)

    asyncio.run(main())
    assert not cache.hits


def test_a_reader_of_cached_data_lets_others_run_and_can_be_cancelled(tmp_path: Path) -> None:
    file = tmp_path / "large"
    file.write_bytes(b"x" * 4_000_000)

    def reads_for_ever() -> None:
        with dhaga.open(file, "rb", 0) as f:
            while True:
                f.seek(0)
                while f.read(65536):
                    pass

    reader = dhaga.spawn(reads_for_ever)
    for _ in range(20):
        dhaga.sleep(0.001)
    reader.cancel()
    with pytest.raises(dhaga.Cancelled):
        reader.result(30)


def test_cancelled_anywhere_a_reader_of_half_cached_lines_loses_none(
    tmp_path: Path, cached: Callable[[int], Cache]
) -> None:
    file = tmp_path / "few"
    file.write_text("".join(LINES[60:100]))
    cache = cached(0)

    def scenario() -> Any:
        lines: list[str] = []
        files: list[Any] = []

        def reads() -> None:
            files.append(dhaga.open(file, "r", 100))
            while line := files[0].readline():
                lines.append(line)
                cache.end = len("".join(lines)) + (50 if len(lines) % 2 else 0)

        victim = dhaga.spawn(reads)

        def check() -> None:
            if files:
                with files[0] as f:
                    lines.extend(f)
                assert lines == LINES[60:100]

        return victim, check

    assert cancel_at_every_park(scenario) >= 5


def test_files_in_memory_are_read_as_well(tmp_path: Path) -> None:
    """tmpfs refuses RWF_NOWAIT."""
    if not os.path.isdir("/dev/shm"):
        pytest.skip("there is no /dev/shm")
    file = Path("/dev/shm") / f"dhaga-{os.getpid()}"
    file.write_bytes(WHOLE)
    try:
        d = dhaga.spawn(lambda: dhaga.open(file, "rb"))
        f = d.result(30)
        settle()
        assert dhaga.spawn(f.read).result(30) == WHOLE
        dhaga.spawn(f.close).join()
    finally:
        file.unlink()
