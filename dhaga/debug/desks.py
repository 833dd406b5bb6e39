"""Desks: a listening socket with an OS thread for it, and one for each who comes. Nothing of it runs on a scheduler.

So it answers whatever the schedulers do, and what a patch replaces, it does not use.
"""

from __future__ import annotations

import logging
import select
import socket
from collections.abc import Callable

from dhaga.kernel import originals

from .helpers import Helper, resting

logger = logging.getLogger("dhaga")

MOST = 32
"""Who may be there at once; a browser opens six connections."""

REST_SECONDS = 0.1
"""After somebody could not be accepted."""


class Desk:
    """Accept whoever comes, and have ``serve(guest)`` called for each in an OS thread."""

    def __init__(self, name: str, listener: socket.socket, serve: Callable[[socket.socket], object]) -> None:
        self.name = name
        self.listener = listener
        listener.setblocking(False)
        self.serve = serve
        self.guests: set[socket.socket] = set()
        self.ear, self.bell = originals.socketpair()
        self.thread = Helper(name, self.run)

    def run(self) -> None:
        """Accept, until ``close`` rings."""
        while self.somebody_is_there():
            try:
                guest, _ = self.listener.accept()
            except OSError:  # gone already, or there are no more file descriptors
                with resting():
                    originals.thread_sleep(REST_SECONDS)
                continue
            guest.setblocking(True)
            self.receive(guest)

    def somebody_is_there(self) -> bool:
        poll = originals.poll()
        poll.register(self.listener, select.POLLIN)
        poll.register(self.ear, select.POLLIN)
        with resting():
            ready = poll.poll()
        return self.ear.fileno() not in dict(ready)

    def receive(self, guest: socket.socket) -> None:
        if len(self.guests) >= MOST:
            guest.close()
            return
        self.guests.add(guest)
        try:
            Helper(self.name, self.attend, guest)
        except RuntimeError:  # at interpreter exit no thread begins: one after the other, then
            self.attend(guest)

    def attend(self, guest: socket.socket) -> None:
        try:
            self.serve(guest)
        except OSError:  # gone
            pass
        except Exception:
            logger.exception("%s: an answer failed", self.name)
        finally:
            self.dismiss(guest)

    def dismiss(self, guest: socket.socket) -> None:
        self.guests.discard(guest)
        guest.close()

    def close(self) -> None:
        """Accept nobody any more, and let go of those who are there."""
        self.bell.send(b"x")
        self.thread.join()
        for guest in list(self.guests):
            try:
                guest.shutdown(socket.SHUT_RDWR)
            except OSError:  # it has just gone
                pass
        self.abandon()

    def abandon(self) -> None:
        """Close what this process has of it; in a forked child that leaves the parent's alone."""
        for mine in (self.listener, self.ear, self.bell):
            mine.close()
