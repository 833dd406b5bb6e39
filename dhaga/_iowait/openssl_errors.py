"""OpenSSL's queue of errors, which is the OS thread's: what one connection leaves there must not strike another.

CPython (3.14; ``_ssl.c``) raises an error of the operating system, such as EPIPE of a write, without taking it off that
queue. The next call that OpenSSL cannot finish, on any connection, then reports that error instead of WANT_READ.
In an OS thread of its own only the broken connection would see it; dhagas share their OS thread, as all connections
of asyncio do.
"""

from __future__ import annotations

import ssl

# Taken before a patch can replace them.
SSLError = ssl.SSLError

idle_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def forget_errors() -> None:
    """Empty the queue of this OS thread. There is no call for that: one that fails does it on its way out.

    This one takes 2.4 µs, ``set_ciphers`` 18.
    """
    try:
        idle_context.load_verify_locations(cadata=b"none")
    except SSLError:
        pass
