"""A connection that is cut off: its owner finds its end, and keeps its fd."""

from __future__ import annotations

import socket

import pytest

import dhaga
from dhaga.integrations._cut_off import answers, cut_off


def test_the_owner_of_the_fd_finds_the_end_and_may_close_it() -> None:
    owner, peer = socket.socketpair()
    with owner, peer:
        cut_off(owner.fileno())
        assert owner.recv(1) == b"" == peer.recv(1)
        cut_off(owner.fileno())


def test_a_connection_that_has_ended_may_be_cut_off() -> None:
    with socket.socket() as unconnected:
        cut_off(unconnected.fileno())


def test_an_answer_in_time_leaves_the_connection_as_it_is() -> None:
    owner, peer = socket.socketpair()
    with owner, peer:
        peer.send(b"answer")
        assert answers(owner.fileno(), 5)
        assert owner.recv(6) == b"answer"
        assert owner.send(b"more") == 4


def test_a_connection_without_an_answer_in_time_is_cut_off() -> None:
    owner, peer = socket.socketpair()
    with owner, peer:
        assert not answers(owner.fileno(), 0.01)
        assert owner.recv(1) == b"" == peer.recv(1)


def test_a_cancel_while_an_answer_is_awaited_cuts_the_connection_off() -> None:
    owner, peer = socket.socketpair()
    with owner, peer:
        waiting = dhaga.spawn(answers, owner.fileno(), None)
        dhaga.sleep(0)
        waiting.cancel()
        with pytest.raises(dhaga.Cancelled):
            waiting.result()
        assert owner.recv(1) == b"" == peer.recv(1)
