"""The endpoint of an inspector where there are no Unix sockets: who may ask, and what is told of one that is gone."""

from __future__ import annotations

import json
import os
import socket
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import dhaga
from dhaga import debug
from dhaga._kernel import originals
from dhaga._kernel.platform.system import system
from dhaga.debug._remote import endpoint, loopback
from dhaga.debug._remote.client import InspectorClient
from dhaga.debug._remote.inspector import Inspector
from dhaga.debug._remote.not_answered import NotAnswered


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(system, "UNIX_SOCKETS", False)
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    return tmp_path / "dhaga"


@pytest.fixture
def mine() -> Iterator[Inspector]:
    with debug.inspect() as inspector:
        yield inspector


def connection_to(inspector: Inspector) -> socket.socket:
    connection = originals.Socket(socket.AF_INET)
    connection.settimeout(60)
    connection.connect((loopback.LOOPBACK, json.loads(inspector.path.read_text())["port"]))
    return connection


def ask(pid: int) -> list[str]:
    with InspectorClient(pid) as line:
        return [row["name"] for row in line.ask("table")["rows"] if row["kind"] == "dhaga"]


def test_who_has_read_the_file_is_answered_again_and_again(mine: Inspector) -> None:
    with dhaga.Scope() as scope:
        scope.spawn(dhaga.sleep, 60, name="sleeper")
        dhaga.sleep(0)
        for _ in range(3):
            assert "sleeper" in dhaga.offload(ask, os.getpid())
        scope.cancel()


@pytest.mark.skipif(sys.platform == "win32", reason="files have no modes there")
def test_the_file_is_for_the_user_alone_and_goes_with_the_inspector(mine: Inspector, folder: Path) -> None:
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700 and stat.S_IMODE(mine.path.stat().st_mode) == 0o600
    assert [each.name for each in folder.iterdir()] == [f"inspector-{os.getpid()}.json"]
    mine.stop()
    assert list(folder.iterdir()) == []


def test_who_does_not_know_the_secret_is_told_nothing(mine: Inspector) -> None:
    with connection_to(mine) as stranger:
        with pytest.raises(ConnectionRefusedError):
            loopback.prove(stranger, bytes(32))
    with connection_to(mine) as stranger:
        stranger.sendall(bytes(loopback.NONCE_BYTES))
        loopback.receive(stranger, loopback.PROOF_BYTES + loopback.NONCE_BYTES)
        stranger.sendall(bytes(loopback.PROOF_BYTES))
        with stranger.makefile("rb") as lines:
            assert "only its own user" in json.loads(lines.readline())["error"]
            assert lines.readline() == b""


def test_a_proof_that_is_sent_back_proves_nothing(mine: Inspector) -> None:
    with connection_to(mine) as first, connection_to(mine) as second:
        first.sendall(bytes(loopback.NONCE_BYTES))
        nonce = loopback.receive(first, loopback.PROOF_BYTES + loopback.NONCE_BYTES)[loopback.PROOF_BYTES :]
        second.sendall(nonce)
        theirs = loopback.receive(second, loopback.PROOF_BYTES + loopback.NONCE_BYTES)[: loopback.PROOF_BYTES]
        first.sendall(theirs)
        with first.makefile("rb") as lines:
            assert "only its own user" in json.loads(lines.readline())["error"]


def test_a_process_that_has_taken_the_port_is_asked_nothing(mine: Inspector) -> None:
    with socket.create_server((loopback.LOOPBACK, 0)) as impostor:
        told = json.loads(mine.path.read_text()) | {"port": impostor.getsockname()[1]}
        mine.path.write_text(json.dumps(told))

        def answer() -> bytes:
            connection, _ = impostor.accept()
            with connection:
                nonce = loopback.receive(connection, loopback.NONCE_BYTES)
                connection.sendall(nonce)  # whoever does not know the secret can only guess
                return connection.recv(1000)

        asked = dhaga.spawn(dhaga.offload, answer)
        with pytest.raises(NotAnswered, match="does not answer"):
            dhaga.offload(ask, os.getpid())
        assert asked.result(60) == b""


def test_files_of_processes_that_were_killed_are_removed(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    for name in ("inspector-4194999.json", "inspector-notes.json"):
        (folder / name).write_text("{}")
    with debug.inspect() as mine:
        assert sorted(folder.iterdir()) == sorted([mine.path, folder / "inspector-notes.json"])


def test_a_process_without_an_inspector_is_told_how_to_get_one() -> None:
    with pytest.raises(NotAnswered, match=r"has no inspector, or is another user's: start it with DHAGA_DEBUG=1"):
        endpoint.connect(os.getpid())
    with pytest.raises(NotAnswered, match="there is no process 4194999"):
        endpoint.connect(4194999)


def test_a_client_that_says_nothing_keeps_no_other_waiting(mine: Inspector, monkeypatch: pytest.MonkeyPatch) -> None:
    with connection_to(mine), connection_to(mine):
        assert isinstance(dhaga.offload(ask, os.getpid()), list)
    monkeypatch.setattr(loopback, "PROOF_SECONDS", 0.01)
    with connection_to(mine) as silent:
        assert silent.recv(1) == b""
