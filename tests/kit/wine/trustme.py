"""Replaces ``trustme``, whose cryptography Wine cannot load, with certificates that another machine has made.

``python tests/kit/wine/trustme.py FILE`` makes them there, with the real ``trustme``. FILE must then be beside this
module, as ``certificates.json``. There are two authorities, of which the first has signed for ``NAMES``.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

NAMES = (("localhost", "127.0.0.1"), ("other.example",), ("client@example.org",))
HERE = Path(__file__).parent


def make(file: Path) -> None:
    """Write the certificates of two authorities. From: a machine that has ``trustme``."""
    sys.path.remove(str(HERE))  # otherwise the import would find this module
    import trustme  # the real one

    made = []
    for names in (NAMES, ()):
        authority = trustme.CA()
        leaves = {
            " ".join(each): authority.issue_cert(*each).private_key_and_cert_chain_pem.bytes().decode()
            for each in names
        }
        made.append({"authority": authority.cert_pem.bytes().decode(), "leaves": leaves})
    file.write_text(json.dumps(made), encoding="ascii")


class Blob:
    """A text in the form of PEM."""

    def __init__(self, text: str) -> None:
        self.text = text

    def bytes(self) -> bytes:
        """Return the text."""
        return self.text.encode()


class LeafCert:
    """A certificate with its key."""

    def __init__(self, text: str) -> None:
        self.private_key_and_cert_chain_pem = Blob(text)
        self.cert_chain_pems = [Blob(text[text.index("-----BEGIN CERTIFICATE") :])]

    def configure_cert(self, context: Any) -> None:
        """Give the certificate to a context."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "certificate.pem")
            path.write_bytes(self.private_key_and_cert_chain_pem.bytes())
            context.load_cert_chain(path)


class CA:
    """An authority: the next of the two at each creation."""

    made = 0

    def __init__(self) -> None:
        authorities = json.loads((HERE / "certificates.json").read_text(encoding="ascii"))
        self.cert_pem = Blob(authorities[CA.made]["authority"])
        self.leaves = authorities[CA.made]["leaves"]
        CA.made += 1

    def issue_cert(self, *names: str) -> LeafCert:
        """Return the certificate for these names. Raises: KeyError, if none was made."""
        return LeafCert(self.leaves[" ".join(names)])

    def configure_trust(self, context: Any) -> None:
        """Make a context trust this authority."""
        context.load_verify_locations(cadata=self.cert_pem.text)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
