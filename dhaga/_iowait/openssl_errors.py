"""OpenSSL's error queue belongs to the OS thread: an error of one connection must not be raised on another.

CPython (3.14; ``_ssl.c``) raises an error of the operating system, such as EPIPE of a write, but leaves it in that
queue. The next call that OpenSSL cannot finish, on any connection, then reports that error instead of WANT_READ.
With one OS thread per connection only the broken one would see it; but dhagas share an OS thread, like all connections
of asyncio.
"""

from __future__ import annotations

import ssl

# Taken before a patch can replace them.
SSLError = ssl.SSLError

idle_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def forget_errors() -> None:
    """Empty the queue of this OS thread. No call does just that, but a failing one empties the queue at its end.

    This one takes 2.4 µs, ``set_ciphers`` 18.
    """
    try:
        idle_context.load_verify_locations(cadata=b"none")
    except SSLError:
        pass
