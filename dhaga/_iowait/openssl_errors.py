"""A function that clears OpenSSL's error queue, so that no TLS connection raises the error of another connection.

OpenSSL has an error queue for each OS thread. CPython (3.14; ``_ssl.c``) raises a system error, such as EPIPE of a
write, but leaves the error in that queue. The next call that OpenSSL cannot finish, on any connection, then reports the
old error instead of WANT_READ. With one OS thread per connection, only the broken connection would be affected. But
dhagas share an OS thread, as do the connections of asyncio.
"""

from __future__ import annotations

import ssl

# The standard names, taken before a patch can replace them.
SSLError = ssl.SSLError

idle_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def forget_errors() -> None:
    """Clear the error queue of this OS thread, with a call that fails: such a call clears the queue at its end.

    The call ``load_verify_locations`` takes 2.4 µs; ``set_ciphers`` would take 18 µs.
    """
    try:
        idle_context.load_verify_locations(cadata=b"none")
    except SSLError:
        pass
