"""The benchmark of io_uring: each way does the operation that it names, and all of it runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import dhaga
from benchmarks.io_uring.calls import RingCalls

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not (shutil.which("cc") and os.path.exists("/usr/include/linux/io_uring.h")),
    reason="needs Linux, its headers and a C compiler",
)


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[RingCalls]:
    dhaga.spawn(int).join()
    try:
        found = RingCalls(tmp_path)
    except PermissionError as error:  # as in most containers
        pytest.skip(f"the kernel refuses io_uring: {error}")
    yield found
    found.close_ring()


def test_operations_by_a_ring_do_what_those_of_os_do(ring: RingCalls, tmp_path: Path) -> None:
    path, other = os.fsencode(tmp_path / "a"), os.fsencode(tmp_path / "b")
    fd = ring.open(path, os.O_RDWR | os.O_CREAT)
    ring.pwrite(fd, b"0123456789", 0)
    ring.pwrite(fd, b"ab", 4, os.RWF_DSYNC)
    ring.fsync(fd)
    ring.fdatasync(fd)
    assert ring.pread(fd, 100, 3) == b"3ab6789"
    ring.close(fd)
    with pytest.raises(OSError, match="Bad file descriptor"):
        ring.pread(fd, 1, 0)
    ring.rename(path, other)
    ring.stat(other)
    with pytest.raises(FileNotFoundError):
        ring.stat(path)


def test_a_thousand_at_once_get_their_own_results(ring: RingCalls, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"".join(b"%04d" % n for n in range(1000)))
    fd = os.open(tmp_path / "file", os.O_RDWR)
    readers = [dhaga.spawn(ring.pread, fd, 4, 4 * n) for n in range(1000)]
    assert [reader.result() for reader in readers] == [b"%04d" % n for n in range(1000)]
    for each in [dhaga.spawn(ring.pwrite, fd, b"%04d" % (999 - n), 4 * n) for n in range(1000)]:
        each.join()
    os.close(fd)
    assert (tmp_path / "file").read_bytes() == b"".join(b"%04d" % (999 - n) for n in range(1000))


def test_the_smallest_run_measures_all_ways(ring: RingCalls, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.io_uring", "--rounds=2", "--calls=2", "--only=stat"]
    results = tmp_path / "results.json"
    subprocess.run([*command, f"--json={results}", f"--folder={tmp_path}"], check=True, timeout=120)
    found = json.loads(results.read_text())["operations"]["stat"]
    assert {*found["idle"]} == {*found["busy"]} == {*found["at once"]["1000"]} == {"inline", "offload", "ring"}
