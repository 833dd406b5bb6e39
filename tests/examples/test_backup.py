"""Backup, restore, verify and list, over threads and over dhagas."""

from __future__ import annotations

import os
import threading
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from examples.backup import client
from examples.backup.client import Saver
from examples.backup.jobs import Job, Summary
from examples.backup.limiter import CREDIT
from examples.backup.store import settled
from examples.backup.tree import Source
from tests.examples.kit import LARGE, Service, fill, picture, snapshots_of
from tests.examples.relay import Relay


def test_a_restored_tree_is_the_tree_that_was_saved(service: Service, tmp_path: Path) -> None:
    source = fill(tmp_path / "source")
    saved = client.backup(service.plan(), str(source))
    restored = client.restore(service.plan(), saved.snapshot, str(tmp_path / "restored"))
    assert (saved.problems, saved.notes, restored.problems) == ([], [], [])
    assert picture(tmp_path / "restored") == picture(source)


def test_the_summary_accounts_for_every_byte(service: Service, tmp_path: Path) -> None:
    source = fill(tmp_path / "source")
    files = [path for path in source.rglob("*") if path.is_file() and not path.is_symlink()]
    used = time.process_time()
    summary = client.backup(service.plan(), str(source))
    used = time.process_time() - used
    assert (summary.files, summary.bytes) == (len(files), sum(path.stat().st_size for path in files))
    assert summary.deduplicated == LARGE  # `twice` after `large`
    assert summary.sent == sum(path.stat().st_size for path in settled(service.root))
    assert summary.seconds > 0 and 0 < summary.cpu_seconds <= used and summary.peak_rss > 1_000_000


def test_what_the_server_has_is_not_sent_again(service: Service, tmp_path: Path) -> None:
    source = fill(tmp_path / "source")
    first = client.backup(service.plan(), str(source))
    again = client.backup(service.plan(), str(source))
    assert first.sent > LARGE
    assert (again.sent, again.deduplicated, again.bytes) == (0, first.bytes, first.bytes)


def test_a_backup_holds_no_more_than_what_is_under_way(service: Service, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    for number in range(40):
        (tmp_path / "source" / str(number)).write_bytes(os.urandom(400_000))
    tracemalloc.start()
    try:
        client.backup(service.plan(workers=2), str(tmp_path / "source"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8_000_000  # of 16,000,000; the server's part is in it


def test_only_the_chunks_that_changed_are_sent(service: Service, tmp_path: Path) -> None:
    source = fill(tmp_path / "source")
    client.backup(service.plan(), str(source))
    with open(source / "large", "r+b") as file:
        file.seek(700_000)
        file.write(b"other")
    again = client.backup(service.plan(), str(source))
    assert 256 * 1024 <= again.sent < 257 * 1024
    client.restore(service.plan(), again.snapshot, str(tmp_path / "restored"))
    assert picture(tmp_path / "restored") == picture(source)


def test_several_clients_at_once(service: Service, tmp_path: Path) -> None:
    sources = [fill(tmp_path / f"source{number}", files=15, seed=number) for number in range(4)]
    names: dict[Path, str] = {}

    def save(source: Path) -> None:
        names[source] = client.backup(service.plan(workers=4), str(source)).snapshot

    threads = [threading.Thread(target=save, args=(source,)) for source in sources]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(names.values()) == sorted(one.name for one in snapshots_of(service))
    for source in sources:
        assert client.verify(service.plan(), names[source]).problems == []
        client.restore(service.plan(), names[source], str(tmp_path / "restored" / source.name))
        assert picture(tmp_path / "restored" / source.name) == picture(source)


def test_a_file_that_changes_while_it_is_read_is_reported(service: Service, tmp_path: Path) -> None:
    source = fill(tmp_path / "source", files=5)
    (source / "0 grows").write_bytes(os.urandom(3_000_000))

    def grow() -> None:
        with open(source / "0 grows", "ab") as file:
            file.write(b"more")

    summary = _backup_held(service, source, 1_200_000, grow)
    assert summary.problems == ["0 grows: changed while it was read: what was saved may be partly old and partly new"]
    client.restore(service.plan(), summary.snapshot, str(tmp_path / "restored"))
    grown = (tmp_path / "restored" / "0 grows").read_bytes()
    assert grown == (source / "0 grows").read_bytes()[: len(grown)]


def _backup_held(service: Service, source: Path, count: int, then: Callable[[], None]) -> Summary:
    """Back up with one worker, and do something at the moment when so many bytes have gone up."""
    found: list[Summary] = []
    with Relay(service.address) as relay:
        relay.hold_at(count)
        plan = service.plan(address=relay.address, workers=1)
        thread = threading.Thread(target=lambda: found.append(client.backup(plan, str(source))))
        thread.start()
        assert relay.held.wait(30)
        then()
        relay.release()
        thread.join()
    return found[0]


def test_what_vanishes_between_the_walk_and_the_reading_is_reported(service: Service, tmp_path: Path) -> None:
    source = fill(tmp_path / "source")
    with Job(service.plan()) as job:
        saver = Saver(job, Source(os.fsencode(source)))
        entries = list(saver.files())
        (source / "twice").unlink()
        (source / "text").unlink()
        os.mkfifo(source / "text")
        job.each(entries, saver.save)
        name = saver.commit(str(source))
    assert job.summary.problems == ["text: is no longer a regular file", "twice: vanished before it was read"]
    client.restore(service.plan(), name, str(tmp_path / "restored"))
    assert set(picture(tmp_path / "restored")) == set(picture(source, read=False)) - {b"text"}


@pytest.mark.parametrize("direction", ["backup", "restore"])
def test_the_bandwidth_limit_is_held(service: Service, tmp_path: Path, direction: str) -> None:
    (tmp_path / "source").mkdir()
    for number in range(20):
        (tmp_path / "source" / str(number)).write_bytes(os.urandom(40_000))
    limited = service.plan(bandwidth=1e6)
    if direction == "backup":
        summary = client.backup(limited, str(tmp_path / "source"))
    else:
        name = client.backup(service.plan(), str(tmp_path / "source")).snapshot
        summary = client.restore(limited, name, str(tmp_path / "restored"))
    assert summary.sent > 800_000
    assert summary.seconds > 0.8 - CREDIT - 0.01  # what is above is the machine's
