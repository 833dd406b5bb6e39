"""What needs processes of their own: kill -9, Ctrl-C, the command line, the demo."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from examples.backup import client
from examples.backup.store import settled
from examples.backup.workers import Unit
from tests.examples.kit import ROOT, Service, command, fill, picture, run, server_process, snapshots_of
from tests.examples.relay import Relay
from tests.kit.sockets import free_port


@pytest.fixture
def options(unit: Unit) -> list[str]:
    """The command line's choice of the unit."""
    return ["--workers", unit.name, "--threads", "3", *(["--dhagas", "2"] if unit.name == "dhagas" else [])]


@contextmanager
def server_of(unit: Unit, store: Path, port: int = 0) -> Iterator[tuple[subprocess.Popen[str], Service]]:
    """Run a server in a process of its own."""
    with server_process(store, "--port", port, "--workers", unit.name) as (process, place):
        yield process, Service.at(unit, store, place)


@contextmanager
def held(service: Service, count: int, *arguments: object) -> Iterator[tuple[subprocess.Popen[str], Relay]]:
    """Run a client through a relay, to the moment when it has sent so many bytes."""
    with Relay(service.address) as relay:
        relay.hold_at(count)
        line = command(*arguments, "--to", "{}:{}".format(*relay.address))
        process = subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            assert relay.held.wait(60)
            yield process, relay
        finally:
            process.kill()
            process.communicate()


def kill_held(service: Service, count: int, *arguments: object) -> None:
    """Kill a client when it has sent so many bytes."""
    with held(service, count, *arguments) as (process, _):
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL


def arrived(service: Service) -> int:
    """Count the bytes of the chunks that no snapshot holds yet, once a good part of what was sent is there."""
    deadline = time.monotonic() + 60
    while (there := size(service.root / "incoming", "?" * 64)) < 100_000:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return there


def stored(service: Service) -> int:
    """Count the bytes of the chunks that snapshots hold."""
    return size(service.root / "chunks", "*/*")


def size(directory: Path, pattern: str) -> int:
    """Add up the sizes of files."""
    return sum(path.stat().st_size for path in directory.glob(pattern))


def names(service: Service) -> list[str]:
    """What a server lists."""
    return [snapshot.name for snapshot in snapshots_of(service)]


def test_a_killed_server_has_every_committed_snapshot(unit: Unit, tmp_path: Path) -> None:
    source = fill(tmp_path / "source")
    with server_of(unit, tmp_path / "store") as (process, service):
        name = client.backup(service.plan(), str(source)).snapshot
        process.send_signal(signal.SIGKILL)
    with server_of(unit, tmp_path / "store") as (_, service):
        assert names(service) == [name]
        assert client.verify(service.plan(), name).problems == []
        client.restore(service.plan(), name, str(tmp_path / "restored"))
    assert picture(tmp_path / "restored") == picture(source)


def test_a_backup_outlives_a_server_that_is_killed_and_started_again(
    unit: Unit, options: list[str], tmp_path: Path
) -> None:
    source = fill(tmp_path / "source")
    port = free_port()
    with ExitStack() as stack:
        with server_of(unit, tmp_path / "store", port) as (_, service):
            process, relay = stack.enter_context(held(service, 700_000, "backup", source, "--json", *options))
            arrived(service)
        with server_of(unit, tmp_path / "store", port) as (_, service):
            relay.release()
            relay.cut()
            out, err = process.communicate(timeout=60)
            assert (process.returncode, err) == (0, "")
            summary = json.loads(out)
            assert names(service) == [summary["snapshot"]]
            client.restore(service.plan(), summary["snapshot"], str(tmp_path / "restored"))
    assert picture(tmp_path / "restored") == picture(source)


def test_a_killed_client_leaves_no_snapshot_and_what_arrived_is_used(
    unit: Unit, options: list[str], tmp_path: Path
) -> None:
    source = fill(tmp_path / "source")
    with server_of(unit, tmp_path / "store") as (_, service):
        kill_held(service, 700_000, "backup", source, *options)
        assert names(service) == []
        there = arrived(service)
        summary = client.backup(service.plan(workers=1), str(source))
        assert summary.sent <= stored(service) - there  # less, if the server was not through with what it got
        assert client.verify(service.plan(), summary.snapshot).problems == []


# ---- the command line ----


def test_the_commands_work_together(unit: Unit, options: list[str], tmp_path: Path) -> None:
    source = fill(tmp_path / "source")
    with server_of(unit, tmp_path / "store") as (_, service):
        place = ["--from", "{}:{}".format(*service.address), *options]
        saved = run("backup", source, "--to", *place[1:], "--bandwidth", "100M", "--json")
        assert (saved.returncode, saved.stderr) == (0, "")
        name = json.loads(saved.stdout)["snapshot"]
        listed = run("list", *place)
        assert (listed.returncode, listed.stderr) == (0, "")
        assert name in listed.stdout and f"{source}\n" in listed.stdout
        restored = run("restore", name, tmp_path / "restored", *place)
        assert (restored.returncode, restored.stderr) == (0, "")
        assert restored.stdout.startswith(f"snapshot {name}\nfiles  ")
        path = max(settled(tmp_path / "store"), key=lambda path: path.stat().st_size)
        os.truncate(path, 100)
        verified = run("verify", name, *place)
        assert verified.returncode == 3
        assert verified.stderr.startswith("problem: ") and "is damaged" in verified.stderr
    assert picture(tmp_path / "restored") == picture(source)


def test_what_cannot_be_done_is_told_without_a_traceback(tmp_path: Path) -> None:
    with server_process(tmp_path / "store", "--port", 0, "--workers", "threads") as (_, place):
        port = place.rpartition(":")[2]
        for arguments, text in (
            (["serve", "--store", tmp_path / "store", "--port", 0], "another server uses the store"),
            (["serve", "--store", tmp_path / "other", "--port", port], f"cannot listen on 127.0.0.1 port {port}"),
            (["restore", "none", tmp_path / "restored", "--from", place], "there is no snapshot 'none'"),
            (["backup", tmp_path / "nothing", "--to", place], "it is not a directory"),
        ):
            refused(1, text, *arguments, "--workers", "threads")


def refused(status: int, text: str, *arguments: object) -> None:
    """Run a command that must fail, with words and not with a traceback."""
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (status, "")
    assert text in done.stderr and "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("rtt", ["20ms", "0"])
def test_the_demo_prints_its_table_and_leaves_nothing_behind(tmp_path: Path, rtt: str) -> None:
    source = fill(tmp_path / "source")
    (tmp_path / "scratch").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "examples.backup.demo", str(source), "--rtt", rtt],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path / "scratch")},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    table = [line.split()[:2] for line in done.stdout.splitlines()]
    for unit in ("4 x 32 dhagas", "32 threads", "128 threads"):
        begin = table.index(unit.split()[:2])
        assert [line[0] for line in table[begin + 1 : begin + 3]] == ["backup", "restore"]
    assert done.stdout.count("what was restored is the source, byte for byte\n") == 3
    assert (
        "without a round trip" if rtt == "0" else f"over a simulated line with a round trip of {rtt}"
    ) in done.stdout
    assert done.stdout.count("the relay used") == (rtt != "0")
    assert "4 x 32 dhagas were" in done.stdout.splitlines()[-1]
    assert os.listdir(tmp_path / "scratch") == []
