"""Errors of accept(2) that do not stop a server, and the server's pause while resources are exhausted."""

from __future__ import annotations

import errno

PEER_ERRORS = (
    *(errno.ECONNABORTED, errno.ECONNRESET, errno.EPIPE, errno.EPROTO, errno.EPERM, errno.ENOPROTOOPT),
    *(errno.ENETDOWN, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETUNREACH),
)
"""Errors that affect only one connection: it ended in the backlog, a firewall forbids it, or its network is down."""

EXHAUSTED = errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM
"""Errors that mean that no file descriptor or no memory is left for a connection."""

ACCEPT_RETRY_SECONDS = 0.1
"""Seconds between an error in ``EXHAUSTED`` and the next accept."""
