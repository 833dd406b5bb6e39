"""Disks of hosts: what is durable, what a kill may leave, and faults."""

from __future__ import annotations

import errno
import os
import resource
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dhaga.simulation import Settings, check_determinism, current, search
from dhaga.simulation.disk._disks import FOLDER_FD

from .kit import after_kill, contents, disk_of, sync_names

pytestmark = pytest.mark.once

SEEDS = 40


def nothing(path: Path) -> None:
    pass


def old_file(path: Path) -> None:
    (path / "file").write_bytes(b"old" * 1000)


def synced(path: Path, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


# ---- files


def test_an_unsynced_write_may_be_kept_lost_or_torn() -> None:
    def append(path: Path) -> None:
        with open(path / "file", "ab") as file:
            file.write(b"new" * 1000)

    found = {each["file"] for each in after_kill(old_file, SEEDS, append)}
    old, new = b"old" * 1000, b"new" * 1000
    assert {old, old + new} <= found
    torn = found - {old, old + new}
    assert len(torn) >= 5
    assert all(each.startswith(old) and len(each) <= 6000 for each in torn)
    assert any(b"\0\0\0\0" in each for each in torn)  # the size without the data


def test_overwritten_sectors_survive_each_by_itself() -> None:
    def write(path: Path) -> None:
        fd = os.open(path / "file", os.O_RDWR)
        for sector in range(6):
            os.pwrite(fd, b"n" * 512, sector * 512)
        os.close(fd)

    with_gap = 0
    for seed in range(SEEDS):
        with disk_of(seed) as host:
            host.disk.set(sector=512)
            (host.disk.path / "file").write_bytes(b"o" * 3072)
            host.disk.sync()
            write(host.disk.path)
            host.kill()
            data = (host.disk.path / "file").read_bytes()
        sectors = [data[at : at + 512] for at in range(0, 3072, 512)]
        assert sum(len(set(sector)) > 1 for sector in sectors) <= 1  # at most the last write of a prefix is cut
        kept = "".join("n" if sector[:1] == b"n" else "o" for sector in sectors)
        with_gap += "on" in kept
    assert with_gap >= 3


def test_what_is_synced_survives_each_kill() -> None:
    def write(path: Path) -> None:
        synced(path / "file", b"data" * 500)
        sync_names(path)
        fd = os.open(path / "through", os.O_WRONLY | os.O_CREAT | os.O_DSYNC)
        sync_names(path)
        os.write(fd, b"one ")
        os.pwritev(fd, [b"two"], 4)
        os.close(fd)
        fd = os.open(path / "flagged", os.O_WRONLY | os.O_CREAT)
        sync_names(path)
        os.pwritev(fd, [b"flagged"], 0, os.RWF_DSYNC)
        os.close(fd)

    wanted = {"file": b"data" * 500, "through": b"one two", "flagged": b"flagged"}
    assert after_kill(nothing, SEEDS, write) == [wanted] * SEEDS


def test_a_sync_covers_what_was_written_before_it_began() -> None:
    found = set()
    for seed in range(SEEDS):
        with disk_of(seed) as host:
            host.disk.set(sync=10)
            fd = os.open(host.disk.path / "file", os.O_WRONLY | os.O_CREAT)
            sync_names(host.disk.path)
            os.write(fd, b"before ")
            syncing = threading.Thread(target=os.fsync, args=(fd,))
            syncing.start()
            time.sleep(5)
            os.write(fd, b"meanwhile")
            syncing.join()
            os.close(fd)
            host.kill()
            found.add((host.disk.path / "file").read_bytes())
    assert {b"before ", b"before meanwhile"} <= found
    assert all(each.startswith(b"before ") for each in found)


def test_a_file_that_is_written_anew_in_place_may_be_empty() -> None:
    found = {each["file"] for each in after_kill(old_file, SEEDS, lambda path: (path / "file").write_bytes(b"new"))}
    assert {b"old" * 1000, b"", b"new"} <= found


# ---- names


def test_a_synced_file_may_lose_its_name() -> None:
    found = after_kill(nothing, SEEDS, lambda path: synced(path / "file", b"data"))
    assert {tuple(each.items()) for each in found} == {(), (("file", b"data"),)}


def test_a_rename_is_whole_or_not_there_but_the_data_may_be_missing() -> None:
    def replace(path: Path) -> None:
        (path / "new").write_bytes(b"new")
        os.replace(path / "new", path / "file")

    found = {tuple(each.items()) for each in after_kill(old_file, SEEDS, replace)}
    assert {name for each in found for name, _ in each} == {"file", "new"}
    assert (("file", b""),) in found
    assert (("file", b"new"),) in found
    assert all(dict(each)["file"] in (b"old" * 1000, b"", b"n", b"ne", b"new", b"\0\0\0") for each in found)


def test_write_sync_rename_sync_is_old_or_new() -> None:
    def replace(path: Path) -> None:
        synced(path / "new", b"new")
        os.replace(path / "new", path / "file")

    found = {each["file"] for each in after_kill(old_file, SEEDS, replace)}
    assert found == {b"old" * 1000, b"new"}
    durable = after_kill(old_file, SEEDS, lambda path: (replace(path), sync_names(path)))
    assert durable == [{"file": b"new"}] * SEEDS


def test_a_file_is_lost_with_the_name_of_its_directory() -> None:
    def make(path: Path) -> None:
        (path / "a" / "b").mkdir(parents=True)
        synced(path / "a" / "b" / "file", b"data")
        sync_names(path / "a" / "b")

    assert {tuple(each) for each in after_kill(nothing, SEEDS, make)} == {(), ("a/b/file",)}
    whole = after_kill(nothing, SEEDS, lambda path: (make(path), sync_names(path / "a"), sync_names(path)))
    assert whole == [{"a/b/file": b"data"}] * SEEDS


def test_a_removed_file_may_come_back() -> None:
    found = after_kill(old_file, SEEDS, lambda path: (path / "file").unlink())
    assert {len(each) for each in found} == {0, 1}
    gone = after_kill(old_file, SEEDS, lambda path: ((path / "file").unlink(), sync_names(path)))
    assert gone == [{}] * SEEDS


def test_changes_of_names_may_survive_in_another_order() -> None:
    def remove(path: Path) -> None:
        for number in range(4):
            (path / str(number)).unlink()

    def make(path: Path) -> None:
        for number in range(4):
            (path / str(number)).touch()

    found = {"".join(each) for each in after_kill(make, SEEDS, remove)}
    assert {"", "0123"} <= found
    assert found - {"", "0123", "123", "23", "3"}  # a later one is gone, an earlier one is there


# ---- kinds of kills


def test_a_kill_of_the_processes_alone_keeps_all_until_the_power_fails() -> None:
    found = set()
    for seed in range(SEEDS):
        with disk_of(seed) as host:
            (host.disk.path / "file").write_bytes(b"data")
            host.kill("kept")
            assert contents(host.disk.path) == {"file": b"data"}
            host.start(time.sleep, 0).join()
            host.kill()
            found.add(tuple(contents(host.disk.path).items()))
    assert {(), (("file", b"data"),)} <= found


def test_a_kill_may_lose_all_that_was_not_synced() -> None:
    with disk_of() as host:
        (host.disk.path / "old").write_bytes(b"old")
        host.disk.sync()
        (host.disk.path / "old").write_bytes(b"new")
        (host.disk.path / "new").write_bytes(b"new")
        host.kill("lost")
        assert contents(host.disk.path) == {"old": b"old"}


def test_what_a_killed_program_has_open_is_closed() -> None:
    opened: list[Any] = []

    def main(path: Path) -> None:
        opened.append(open(path / "file", "wb"))  # noqa: SIM115  # the kill closes it
        opened.append(os.open(path / "file", os.O_RDONLY))
        opened.append(os.dup(opened[1]))
        time.sleep(100)

    with disk_of() as host:
        host.start(main, host.disk.path)
        time.sleep(1)
        host.kill()
        assert opened[0].raw.closed
        for fd in opened[1:]:
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.fstat(fd)


def test_the_folders_of_the_disks_are_removed_at_the_end() -> None:
    with disk_of() as host:
        (host.disk.path / "directory").mkdir()
        (host.disk.path / "directory" / "file").write_bytes(b"data")
        folder = Path(host.network.disks.folder)
        found = folder / "server" / "directory" / "file"
        assert os.stat(found).st_ino == os.stat(host.disk.path / "directory" / "file").st_ino
    assert not folder.exists()


def paths_of_a_disk(path: Path) -> None:
    """Show by events in which order a set has the paths of a disk, however the program has found them."""
    (path / "link").symlink_to(path)
    os.chdir(path)
    try:
        found = [path, Path.cwd(), path.resolve(), (path / "link").resolve(), Path(os.fsdecode(os.getcwdb()))]
    finally:
        os.chdir("/")
    assert found == [path] * len(found)
    assert os.path.realpath(os.fsencode(path / "link")) == os.fsencode(path)
    for each in {str(path / str(number)) for number in range(20)}:
        Path(each).touch()


def test_the_paths_of_a_disk_are_the_same_in_each_process() -> None:
    def program() -> None:
        paths_of_a_disk(current().network.host("server").disk.path)

    check_determinism(program, 1, Settings(preempt=None))


def test_a_path_of_a_disk_needs_no_free_high_fd() -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (FOLDER_FD, limits[1]))
    try:
        with disk_of() as host:
            paths_of_a_disk(host.disk.path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def hang() -> None:
    while True:
        pass


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(("end", "kind"), [(hang, "Hang"), (die, "ProcessDied")])
def test_the_folder_of_a_run_without_an_end_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: Callable[[], None], kind: str
) -> None:
    def program() -> None:
        (current().network.host("server").disk.path / "file").write_bytes(b"data")
        end()

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    findings = search(program, 1, Settings(preempt=None), real_seconds=1, jobs=1)
    assert [each.kind for each in findings.failures] == [kind]
    assert list(tmp_path.iterdir()) == []


# ---- faults


def test_a_full_disk_takes_a_part_of_a_write_and_then_nothing() -> None:
    with disk_of() as host:
        host.disk.set(capacity=1000)
        fd = os.open(host.disk.path / "file", os.O_WRONLY | os.O_CREAT)
        assert os.write(fd, b"x" * 800) == 800
        assert os.write(fd, b"x" * 800) == 200
        for call in (lambda: os.write(fd, b"x"), lambda: os.open(host.disk.path / "new", os.O_CREAT | os.O_WRONLY)):
            with pytest.raises(OSError, match="No space left") as error:
                call()
            assert error.value.errno == errno.ENOSPC
        os.pwrite(fd, b"y", 0)  # in place
        os.ftruncate(fd, 10)
        assert os.write(fd, b"") == 0
        os.close(fd)
        host.disk.empty()
        (host.disk.path / "new").write_bytes(b"y" * 5000)


def test_a_file_name_may_be_no_utf_8() -> None:
    with disk_of() as host:
        path = os.fsencode(host.disk.path) + b"/\xff"
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
        os.unlink(path)
        assert os.listdir(host.disk.path) == []


def test_an_exclusive_open_does_not_follow_a_link() -> None:
    with disk_of() as host:
        os.symlink("missing", host.disk.path / "link")
        with pytest.raises(FileExistsError):
            (host.disk.path / "link").open("x")
        assert os.listdir(host.disk.path) == ["link"]


@pytest.mark.parametrize("offset", [1000, 500, 5000])
def test_a_write_after_a_hole_that_fills_the_disk_fails(offset: int) -> None:
    with disk_of() as host:
        host.disk.set(capacity=500)
        fd = os.open(host.disk.path / "file", os.O_CREAT | os.O_RDWR)
        with pytest.raises(OSError, match="No space left"):
            os.pwrite(fd, b"x" * 1000, offset)
        assert os.pwrite(fd, b"x" * 1000, 490) == 10 and os.fstat(fd).st_size == 500
        os.close(fd)


def test_a_disk_is_full_for_a_time() -> None:
    with disk_of() as host:
        host.disk.fill(seconds=60)
        with pytest.raises(OSError, match="No space left"):
            (host.disk.path / "file").write_bytes(b"x" * 10_000)
        time.sleep(61)
        (host.disk.path / "file").write_bytes(b"x" * 10_000)


def test_a_disk_that_was_full_for_a_time_has_its_capacity_again() -> None:
    with disk_of() as host:
        host.disk.set(capacity=20_000)
        host.disk.fill(seconds=60)
        time.sleep(61)
        (host.disk.path / "file").write_bytes(b"x" * 20_000)
        with pytest.raises(OSError, match="No space left"):
            (host.disk.path / "more").write_bytes(b"x")


def test_the_end_of_a_fault_does_not_end_a_later_one() -> None:
    with disk_of() as host:
        usual = host.disk.sync_seconds
        for seconds in (10, 20):
            host.disk.slow_down(seconds, seconds)
            host.disk.fail(["read"], seconds=seconds)
            host.disk.fill(seconds)
        time.sleep(15)
        assert host.disk.sync_seconds == (20, 20)
        assert host.disk.failing == {"read"}
        assert host.disk.capacity is not None
        time.sleep(6)
        assert host.disk.sync_seconds == usual
        assert not host.disk.failing
        assert host.disk.capacity is None


def test_after_a_failed_sync_the_next_one_succeeds_and_the_data_may_be_gone() -> None:
    found = set()
    for seed in range(SEEDS):
        with disk_of(seed) as host:
            old_file(host.disk.path)
            host.disk.sync()
            fd = os.open(host.disk.path / "file", os.O_RDWR)
            os.write(fd, b"NEW")
            host.disk.fail(["sync"], seconds=1)
            with pytest.raises(OSError, match="Input/output error"):
                os.fsync(fd)
            time.sleep(2)
            os.fsync(fd)
            assert os.pread(fd, 3, 0) == b"NEW"
            os.close(fd)
            host.kill()
            found.add((host.disk.path / "file").read_bytes()[:3])
    assert {b"old", b"NEW"} <= found


def test_a_file_that_lost_its_writes_has_its_real_size_after_a_kill() -> None:
    sizes = set()
    for seed in range(SEEDS):
        with disk_of(seed) as host:
            path = host.disk.path / "file"
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            host.disk.sync()
            os.write(fd, b"lost" * 1000)
            host.disk.fail(["sync"])
            with pytest.raises(OSError, match="Input/output error"):
                os.fsync(fd)
            host.disk.mend()
            os.close(fd)
            host.kill()
            assert host.disk.used == path.stat().st_size
            synced(path, b"new")
            host.kill("kept")  # compares the model with the directory
            sizes.add(host.disk.used)
    assert sizes == {3}


def test_reads_and_writes_fail_by_a_drawn_share() -> None:
    with disk_of() as host:
        file = host.disk.path / "file"
        file.write_bytes(b"data")
        host.disk.fail(["read"], share=0.5)
        failed = 0
        for _ in range(100):
            try:
                file.read_bytes()
            except OSError as error:
                assert error.errno == errno.EIO
                failed += 1
        assert failed > 20  # a file is read in several calls
        host.disk.mend()
        assert file.read_bytes() == b"data"


def test_a_slow_disk_takes_its_time() -> None:
    with disk_of() as host:
        host.disk.slow_down(30, seconds=100)
        began = time.monotonic()
        synced(host.disk.path / "file", b"data")
        assert time.monotonic() - began == pytest.approx(30, abs=0.1)
        time.sleep(100)
        began = time.monotonic()
        synced(host.disk.path / "file", b"data")
        assert time.monotonic() - began < 0.1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda disk: disk.set(sync=-1), "sync is a range"),
        (lambda disk: disk.set(sector=0), "sector is a number of bytes from 1, and not 0"),
        (lambda disk: disk.set(capacity=1.5), "capacity is a number of bytes from 0, and not 1.5"),
        (lambda disk: disk.fill(seconds=0), "seconds is a number above 0, or None, and not 0"),
        (lambda disk: disk.fail(["fsync"]), "calls that fail are read, write, sync, and not 'fsync'"),
        (lambda disk: disk.fail("sync"), r"calls takes several kinds, \['sync'\], and not 'sync'"),
        (lambda disk: disk.fail(share=2), "share is a share, from 0 to 1, and not 2"),
        (lambda disk: disk.slow_down("long"), "sync is a number of seconds"),
    ],
)
def test_wrong_settings_are_errors(call: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        with disk_of() as host:
            call(host.disk)
