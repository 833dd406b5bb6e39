"""Errors of accept(2) that do not end a server, and its pause while the system has no room."""

from __future__ import annotations

import errno

PEER_ERRORS = (
    *(errno.ECONNABORTED, errno.ECONNRESET, errno.EPIPE, errno.EPROTO, errno.EPERM, errno.ENOPROTOOPT),
    *(errno.ENETDOWN, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETUNREACH),
)
"""Errors of one connection: it ended in the backlog, or its network is down."""

EXHAUSTED = errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM
"""Errors when the system has no descriptor or memory left for a connection."""

ACCEPT_RETRY_SECONDS = 0.1
"""Seconds until the next accept in that case."""
