"""A write-ahead log: an append returns when its record is durable, those that arrive together are written together."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import dhaga
from examples.wal import Broken, WalError, WriteAheadLog, segments

Write = Callable[[int, bytes, int], None]


class Disk:
    """Stands between the log and the disk: writes wait for ``gate``, and fail with ``error`` if there is one."""

    def __init__(self, write: Write) -> None:
        self.write = write
        self.begun = threading.Semaphore(0)
        self.gate = threading.Semaphore(0)
        self.error: OSError | None = None
        self.writes: list[int] = []  # how many records each had

    def __call__(self, fd: int, data: bytes, offset: int) -> None:
        self.writes.append(data.count(b"\xd7rec"))
        self.begun.release()
        self.gate.acquire()
        if self.error is not None:
            raise self.error
        self.write(fd, data, offset)

    def wait_for_write(self) -> None:
        """Let the dhagas run until the disk is asked for something."""
        dhaga.offload(self.begun.acquire)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(segments.write_durably)


def opened(path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch) -> WriteAheadLog:
    """A new log; from now on it writes through the disk of the test."""
    opened = WriteAheadLog(path)
    monkeypatch.setattr(segments, "write_durably", disk)
    return opened


def held(path: Path) -> list[tuple[int, bytes]]:
    """What a log holds once it is opened again."""
    with WriteAheadLog(path) as again:
        return list(again.replay())


def test_what_arrives_while_the_disk_is_busy_is_the_next_batch(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    wal = opened(tmp_path, disk, monkeypatch)
    first = dhaga.spawn(wal.append, b"0")
    disk.wait_for_write()
    others = [dhaga.spawn(wal.append, b"%d" % number) for number in range(1, 10)]
    dhaga.sleep(0)
    assert (disk.writes, first.is_alive()) == ([1], True)  # not durable, not acknowledged
    disk.gate.release()
    assert first.result() == 1
    disk.wait_for_write()
    assert (disk.writes, any(other.has_ended for other in others)) == ([1, 9], False)
    disk.gate.release()
    assert [other.result() for other in others] == list(range(2, 11))
    wal.close()
    assert disk.writes == [1, 9]
    assert held(tmp_path) == [(number + 1, b"%d" % number) for number in range(10)]


def test_ten_thousand_that_arrive_together_are_one_write(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    wal = opened(tmp_path, disk, monkeypatch)
    appends = [dhaga.spawn(wal.append, b"first")]
    disk.wait_for_write()
    appends += [dhaga.spawn(wal.append, b"%d" % number) for number in range(10_000)]
    appends[-1].cancel()
    dhaga.sleep(0)
    appends[-2].cancel()
    disk.gate.release(2)
    assert [append.result() for append in appends[:-2]] == list(range(1, 10_000))
    assert disk.writes == [1, 9_998]
    wal.close()


def test_dhagas_of_several_schedulers_and_threads_share_a_log(tmp_path: Path) -> None:
    numbers: list[int] = []
    with WriteAheadLog(tmp_path) as wal, dhaga.Scheduler() as one, dhaga.Scheduler() as two:

        def append(who: str) -> None:
            numbers.extend(wal.append(f"{who} {turn}".encode()) for turn in range(20))

        threads = [threading.Thread(target=append, args=(f"thread {number}",)) for number in range(3)]
        for thread in threads:
            thread.start()
        dhagas = [place.spawn(append, f"{place} {number}") for place in (one, two, dhaga) for number in range(5)]
        for each in dhagas:
            each.join()
        for thread in threads:
            dhaga.offload(thread.join)
        found = list(wal.replay())
    assert sorted(numbers) == [number for number, _ in found] == list(range(1, 18 * 20 + 1))
    turns: dict[bytes, list[int]] = {}
    for _, payload in found:
        who, _, turn = payload.rpartition(b" ")
        turns.setdefault(who, []).append(int(turn))
    assert list(turns.values()) == [list(range(20))] * 18


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_failed_write_fails_its_batch_and_the_log_is_never_written_again(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    wal = opened(tmp_path, disk, monkeypatch)
    disk.gate.release()
    assert wal.append(b"acknowledged") == 1
    disk.wait_for_write()
    disk.error = OSError(number, os.strerror(number))

    def is_refused(payload: bytes) -> None:
        with pytest.raises(Broken, match=os.strerror(number)):
            wal.append(payload)

    batch = [dhaga.spawn(is_refused, b"lost")]
    disk.wait_for_write()
    batch += [dhaga.spawn(is_refused, b"behind it") for _ in range(3)]
    dhaga.sleep(0)
    disk.gate.release(9)
    for append in batch:
        append.result()
    disk.error = None
    for wants in (lambda: wal.append(b"later"), lambda: wal.checkpoint(0)):
        with pytest.raises(Broken, match="could not be written"):
            wants()
    wal.close()
    assert disk.writes == [1, 1]
    assert held(tmp_path) == [(1, b"acknowledged")]


def test_a_cancelled_append_that_was_not_begun_is_not_written(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    wal = opened(tmp_path, disk, monkeypatch)
    under_way = dhaga.spawn(wal.append, b"under way")
    disk.wait_for_write()
    waiting = dhaga.spawn(wal.append, b"waiting")
    dhaga.sleep(0)
    waiting.cancel()
    waiting.join()
    with pytest.raises(TimeoutError):
        wal.append(b"in a hurry", timeout=0.001)
    under_way.cancel()  # lets it go at once, but the disk has the record already
    under_way.join()
    disk.gate.release(9)
    assert wal.append(b"next", timeout=30) == 2
    wal.close()
    assert held(tmp_path) == [(1, b"under way"), (2, b"next")]


def test_segments_follow_each_other_and_a_checkpoint_drops_the_oldest(tmp_path: Path) -> None:
    with WriteAheadLog(tmp_path, segment_bytes=100) as wal:
        for number in range(1, 11):
            wal.append(b"%03d" % number * 30)
        names = [int(path.stem) for path in segments.segments_in(tmp_path)]
        assert names == list(range(1, 11))  # each is above 100 bytes
        assert [number for number, _ in wal.replay()] == list(range(1, 11))
        assert (wal.checkpoint(0), wal.checkpoint(1), wal.checkpoint(3)) == (0, 1, 2)
        assert [number for number, _ in wal.replay()] == list(range(4, 11))
        wal.checkpoint(1000)
        assert len(segments.segments_in(tmp_path)) == 1  # the last stays: it knows the number that follows
    with WriteAheadLog(tmp_path) as wal:
        assert wal.append(b"eleven") == 11


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_forked_child_does_not_write_to_its_parents_log(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    wal = opened(tmp_path, disk, monkeypatch)
    under_way = [dhaga.spawn(wal.append, b"of the parent")]
    disk.wait_for_write()
    under_way.append(dhaga.spawn(wal.append, b"of the parent, too"))
    dhaga.sleep(0)
    child = os.fork()
    if not child:
        try:
            try:
                wal.append(b"of the child")
            except WalError as error:
                refused = "belongs to the parent" in str(error)
            disk.gate.release(9)
            wal.close()
            os._exit(0 if refused and disk.writes == [1] else 1)
        finally:
            os._exit(2)
    _, status = dhaga.offload(os.waitpid, child, 0)
    disk.gate.release(9)
    assert [append.result() for append in under_way] == [1, 2]
    wal.close()
    assert (os.waitstatus_to_exitcode(status), len(held(tmp_path))) == (0, 2)
