"""Echo over TLS: handshakes, records, and ends that come in the middle of either."""

from __future__ import annotations

from typing import Any

from tests.kit.certificates import NAME, client_context, server_context
from tests.soak.attempts import Attempt
from tests.soak.echo import Client, Echo
from tests.soak.run import Run


class TLS(Echo):
    """The same servers and clients with TLS between them."""

    name = "tls"
    width = 3

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.context = server_context()
        self.trusting = client_context()

    def talk(self, attempt: Attempt, sock: Any) -> None:
        """Shake hands, then be a client."""
        with self.trusting.wrap_socket(sock, server_hostname=NAME) as secured:
            self.done()
            SecuredClient(attempt, secured).talk()


class SecuredClient(Client):
    """A client that cannot half-close: TLS knows no such thing here."""

    half_closes = False
