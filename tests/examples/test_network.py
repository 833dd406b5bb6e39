"""What the network and strangers can do: cuts, a server that is gone, wrong tokens, frames that are none."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from examples.backup import client
from examples.backup.chunks import digest_of
from examples.backup.tree import DIRECTORY, FILE, Entry
from examples.backup.wire import FRAME_LIMIT, BackupError, Disconnected, Wire, pack, sign
from tests.examples.kit import Service, fill, picture, snapshots_of
from tests.examples.relay import Relay
from tests.kit.socket_cases import eventually
from tests.kit.sockets import free_port


@pytest.mark.logs  # of connections that broke
@pytest.mark.parametrize("workers", [1, 6])
def test_after_a_cut_the_backup_goes_on_without_sending_again_what_arrived(
    serve: Callable[..., Service], tmp_path: Path, workers: int
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for number in range(120):
        (source / f"file{number}").write_bytes(os.urandom(8_000))
    service = serve(root=tmp_path / "uncut")
    with Relay(service.address) as relay:
        client.backup(service.plan(address=relay.address, workers=workers), str(source))
    uncut = relay.up
    service = serve()
    with Relay(service.address) as relay:
        relay.cut_at(200_000, 400_000, 700_000)
        summary = client.backup(service.plan(address=relay.address, workers=workers), str(source))
        assert relay.cuts == 3
    # What a cut may cost: the one file that each worker has under way, and asking again.
    assert uncut < relay.up < uncut + 3 * workers * 9_000
    client.restore(service.plan(), summary.snapshot, str(tmp_path / "restored"))
    assert picture(tmp_path / "restored") == picture(source)


@pytest.mark.logs  # of connections that broke
def test_a_cut_while_the_snapshot_is_committed_leaves_one_snapshot(service: Service, tmp_path: Path) -> None:
    source = fill(tmp_path / "source")
    client.backup(service.plan(), str(source))
    with Relay(service.address) as relay:
        client.backup(service.plan(address=relay.address, workers=1), str(source))
        asked = relay.up
    for before_the_end in (2, 20, 2_000, 4_000):  # in the commit's frame, and in those of the entries
        with Relay(service.address) as relay:
            relay.cut_at(asked - before_the_end)
            name = client.backup(service.plan(address=relay.address, workers=1), str(source)).snapshot
            assert relay.cuts == 1
        assert [one.name for one in snapshots_of(service)].count(name) == 1
        assert client.verify(service.plan(), name).problems == []
    assert len(snapshots_of(service)) == 6


@pytest.mark.logs  # of connections that broke
def test_a_commit_whose_reply_is_lost_is_not_repeated(service: Service, tmp_path: Path) -> None:
    source = fill(tmp_path / "source")
    client.backup(service.plan(), str(source))
    with Relay(service.address) as relay:
        client.backup(service.plan(address=relay.address, workers=1), str(source))
    with Relay(service.address) as cutting:
        cutting.lose_reply_at(relay.up)
        name = client.backup(service.plan(address=cutting.address, workers=1), str(source)).snapshot
        assert cutting.cuts == 1
    assert relay.up < cutting.up < relay.up + 500
    assert [one.name for one in snapshots_of(service)][2:] == [name]


def test_a_server_that_is_not_there_is_told_at_once(service: Service, tmp_path: Path) -> None:
    nobody = ("127.0.0.1", free_port())
    with pytest.raises(
        BackupError, match=r"cannot reach 127\.0\.0\.1:\d+ \(Connection refused\): is the server running"
    ):
        client.backup(service.plan(address=nobody), str(tmp_path))


# ---- strangers ----


class Stranger:
    """Somebody who speaks to a server by hand."""

    def __init__(self, service: Service, token: str | None = None) -> None:
        self.sock = socket.create_connection(service.address, timeout=10)
        self.wire = Wire(self.sock)
        _, _, nonce = self.wire.receive()
        if token is not None:
            self.wire.send(["hello", sign(token, nonce)])
            assert self.wire.receive() == ["ok", None]

    def __enter__(self) -> Stranger:
        return self

    def __exit__(self, *error: object) -> None:
        self.sock.close()

    def ask(self, request: object) -> Any:
        """Send a request; give the reply."""
        self.wire.send(request)
        return self.wire.receive()

    def ask_raw(self, data: bytes) -> Any:
        """Send bytes; give the reply."""
        self.sock.sendall(data)
        return self.wire.receive()

    def is_cut(self) -> bool:
        """Tell whether the server has closed."""
        with pytest.raises((Disconnected, ConnectionResetError)):
            self.wire.receive()
        return True


@pytest.mark.logs
@pytest.mark.parametrize("token", ["wrong", ""])
def test_a_wrong_token_is_refused(serve: Callable[..., Service], tmp_path: Path, token: str) -> None:
    service = serve(token="right")
    source = fill(tmp_path / "source", files=3)
    with pytest.raises(BackupError, match="wrong token: pass the one the server was started with"):
        client.backup(service.plan(token=token), str(source))
    assert client.backup(service.plan(token="right"), str(source)).problems == []


def frame(body: bytes) -> bytes:
    """Put a length before bytes."""
    return struct.pack(">I", len(body)) + body


BAD_FRAMES = [
    (struct.pack(">I", FRAME_LIMIT + 1), "over-long frame: 4194305 bytes announced, the limit is 4194304"),
    (b"GET / HTTP/1.1\r\n\r\n", "over-long frame: 1195725856 bytes announced, the limit is 4194304"),
    (frame(b"\xc1\xc1"), "bad frame: 2 bytes that are not msgpack"),
    (frame(pack(7)), "bad request: expected a method and its arguments"),
    (frame(pack([])), "bad request: expected a method and its arguments"),
    (frame(pack([["have"], []])), "bad request: expected a method and its arguments"),
    (frame(pack(["__init__"])), "bad request: there is no method '__init__'"),
    (frame(pack(["have"])), "bad request: have takes list"),
    (frame(pack(["have", 7])), "bad request: have takes list"),
    (frame(pack(["have", [7]])), "bad request: a digest has 32 bytes"),
    (frame(pack(["get", [b"../../../../etc/passwd"]])), "bad request: a digest has 32 bytes"),
    (frame(pack(["put", b"short", b""])), "bad request: a digest has 32 bytes"),
    (frame(pack(["snapshots", 1])), "bad request: snapshots takes no argument"),
    (frame(pack(["page", 2**63, 0])), "bad request: page takes int, int"),
    (frame(pack(["commit", 2**64 - 1])), "bad request: commit takes int"),
    (frame(pack(["add", [list(replace(Entry(b"a", FILE), size=2**63).to_wire())]])), "bad entry: a of kind 'file'"),
    (frame(b"\x93\xa4have\x90\x80"), "bad frame: 8 bytes that are not msgpack"),
]


@pytest.mark.logs
def test_a_bad_frame_is_answered_and_ends_the_connection(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    for data, text in BAD_FRAMES:
        with Stranger(service, "") as stranger:
            status, said = stranger.ask_raw(data)
            assert status == "error" and said.startswith(text)
            assert stranger.is_cut()
    assert snapshots_of(service) == []  # the server goes on
    eventually(lambda: len(caplog.records) == len(BAD_FRAMES))  # it cuts the connection first
    assert [
        record.getMessage().startswith(f"127.0.0.1: {text}")
        for (_, text), record in zip(BAD_FRAMES, caplog.records, strict=True)
    ]


@pytest.mark.parametrize("path", [b"../out", b"/etc/passwd", b"a/../../out"])
def test_the_server_takes_no_entry_that_climbs_out(service: Service, path: bytes) -> None:
    with Stranger(service, "") as stranger:
        assert stranger.ask(["begin", "name", "host", "/"]) == ["ok", True]
        status, said = stranger.ask(["add", [Entry(path, FILE).to_wire()]])
        assert status == "error" and "refused" in said


def test_a_snapshot_without_its_chunks_is_not_committed(service: Service) -> None:
    with Stranger(service, "") as stranger:
        stranger.ask(["begin", "name", "host", "/"])
        stranger.ask(["add", [Entry(b"", DIRECTORY).to_wire(), Entry(b"a", FILE, chunks=digest_of(b"a")).to_wire()]])
        status, said = stranger.ask(["commit", 2])
        assert status == "error" and "missing from the store: run the backup again" in said
        assert stranger.ask(["commit", 3]) == ["error", "the snapshot has 2 entries, not 3"]
    assert snapshots_of(service) == []
