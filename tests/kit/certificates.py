"""Certificates for the tests of TLS, from an authority that is made once in a process."""

from __future__ import annotations

import functools
from typing import Any

import trustme

from dhaga import ssl

NAME = "localhost"


@functools.cache
def authority() -> trustme.CA:
    """Return the authority that has signed all certificates."""
    return trustme.CA()


@functools.cache
def stranger() -> trustme.CA:
    """Return an authority that has signed no certificate."""
    return trustme.CA()


@functools.cache
def certificate(*names: str) -> trustme.LeafCert:
    """Return a certificate for these hosts or mail addresses; by default for ``localhost`` and 127.0.0.1."""
    return authority().issue_cert(*(names or (NAME, "127.0.0.1")))


def server_context(cert: trustme.LeafCert | None = None, kind: Any = ssl) -> Any:
    """Make the context of a server. ``kind``: ``dhaga.ssl``, or the standard ``ssl``."""
    context = kind.create_default_context(kind.Purpose.CLIENT_AUTH)
    (cert or certificate()).configure_cert(context)
    return context


def client_context(version: Any = None, trusted: trustme.CA | None = None, kind: Any = ssl) -> Any:
    """Make the context of a client that trusts the authority, for one version of TLS, or for all."""
    trusted = trusted or authority()
    context = kind.create_default_context(cadata=trusted.cert_pem.bytes().decode())  # the default ones take 20 ms
    if version is not None:
        context.minimum_version = context.maximum_version = version
    return context
