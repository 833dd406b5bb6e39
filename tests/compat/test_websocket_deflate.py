"""permessage-deflate: what is agreed on, and what is compressed."""

from __future__ import annotations

import pytest

import dhaga
from dhaga._kernel.run import turn_budget
from dhaga.compat.eventlet import _websocket_deflate as deflate

PLAIN = {"server_no_context_takeover": False, "client_no_context_takeover": False}
HELLO = bytes.fromhex("f248cdc9c90700")
"""Of RFC 7692, 7.2.3.1; the second time, 7.2.3.2, with the first in mind."""
HELLO_AGAIN = bytes.fromhex("f200110000")


@pytest.mark.parametrize(
    ("offer", "answer"),
    [
        ("permessage-deflate", "permessage-deflate"),
        ("PerMessage-Deflate; Client_no_context_takeover;", "permessage-deflate; client_no_context_takeover"),
        (
            'permessage-deflate; server_max_window_bits = "10"; client_max_window_bits',
            "permessage-deflate; server_max_window_bits=10; client_max_window_bits=15",
        ),
        ("other, permessage-deflate; server_max_window_bits=16, permessage-deflate", "permessage-deflate"),
    ],
)
def test_the_first_offer_that_can_be_met_is_accepted(offer: str, answer: str) -> None:
    assert deflate.answer(deflate.negotiate(offer)) == answer


@pytest.mark.parametrize(
    "offer",
    [
        "",
        "x-webkit-deflate-frame",
        "permessage-deflate; unknown",
        "permessage-deflate; client_max_window_bits=7",
        "permessage-deflate; server_max_window_bits=8",  # which zlib cannot do
        "permessage-deflate; server_max_window_bits=9; server_max_window_bits=10",
        "permessage-deflate; server_no_context_takeover=1",
    ],
)
def test_what_cannot_be_met_is_left_out(offer: str) -> None:
    assert deflate.negotiate(offer) == {}


@pytest.mark.parametrize("forgets", [False, True])
def test_a_side_keeps_its_context_unless_it_was_agreed_not_to(forgets: bool) -> None:
    found = PLAIN | {"server_no_context_takeover": forgets}
    deflater, inflater = deflate.Deflater(found, "server"), deflate.Inflater(found, "server")
    sent = [deflater.compress(b"Hello") for _ in range(2)]
    assert sent == [HELLO, HELLO if forgets else HELLO_AGAIN]
    assert [inflater.decompress(each, 5) for each in sent] == [b"Hello"] * 2


def test_a_message_that_swells_beyond_the_limit_is_not_decompressed() -> None:
    bomb = deflate.Deflater(PLAIN, "client").compress(bytes(1_000_000))
    assert len(bomb) < 2000
    assert deflate.Inflater(PLAIN, "client").decompress(bomb, 999_999) is None
    assert deflate.Inflater(PLAIN, "client").decompress(bomb, 1_000_000) == bytes(1_000_000)


def test_others_run_while_a_message_is_decompressed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_budget, "TURN_SECONDS", 0)
    bomb = deflate.Deflater(PLAIN, "client").compress(bytes(1_000_000))
    turns: list[int] = []

    def other() -> None:
        while receiver.is_alive():
            turns.append(1)
            dhaga.sleep(0)

    receiver = dhaga.spawn(deflate.Inflater(PLAIN, "client").decompress, bomb, 1_000_000)
    dhaga.spawn(other).join()
    assert receiver.result() == bytes(1_000_000)
    assert len(turns) > 4
