"""A whole server: the service, its endpoints at two addresses, and its link to others."""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import Any, Final, Self

from dhaga.debug import stats
from dhaga.http.wsgi import Server as HTTPServer

from .line_protocol import LineHandler
from .runtime import Server
from .service import Service
from .settings import Settings
from .web import Web

LEEWAY: Final = 60.0
"""Seconds by which the clocks of linked servers may differ."""

GRACE: Final = 5.0
"""Seconds for what is under way when the server stops."""


class NotificationServer:
    """Serves while its `with` block runs; `address` is that of HTTP, `line_address` that of the line protocol."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings = settings or Settings()
        self.service = Service(
            settings.limits,
            settings.tokens,
            policy=settings.policy,
            heartbeat=settings.heartbeat,
            leeway=LEEWAY if settings.redis else 0.0,
        )
        self.link = self.linked() if settings.redis else None
        host, clients = settings.host, settings.clients
        self.http = HTTPServer(Web(self.service, self.details), (host, settings.port), max_connections=clients)
        self.lines = Server(
            LineHandler(self.service), (host, settings.line_port), max_connections=clients, name="lines"
        )
        self.stack = ExitStack()

    def __repr__(self) -> str:
        return f"<NotificationServer {self.http!r} {self.service!r}>"

    def linked(self) -> Any:
        from .redis_link import RedisLink  # and thereby redis, for those alone who have several servers

        assert self.settings.redis is not None
        link = RedisLink(self.settings.redis, self.service.broker, self.settings.limits, self.settings.stream)
        self.service.posting = link.publish
        return link

    @property
    def address(self) -> tuple[str, int]:
        """Where HTTP is served."""
        host, port = self.http.address[:2]
        return host, port

    @property
    def line_address(self) -> tuple[str, int]:
        """Where lines are served."""
        host, port = self.lines.address[:2]
        return host, port

    def details(self) -> dict[str, Any]:
        """Tell what the page shows beside the service's own figures."""
        return {
            "lines": self.line_address[1],
            "dhagas": sum(each.live for each in stats().schedulers if each.name == self.http.scheduler.name),
            "redis": self.link and self.link.linked,
        }

    def start(self) -> Self:
        """Start everything. Parks: while Redis is read. Raises: OSError, and nothing then runs."""
        with ExitStack() as stack:
            self.service.start()
            stack.callback(self.service.stop, GRACE)
            if self.link:
                self.link.start()
                stack.callback(self.link.stop, GRACE)
            for server in (self.lines, self.http):
                server.start()
                stack.callback(server.stop, GRACE)
            self.stack = stack.pop_all()
        return self

    def stop(self) -> None:
        """Take nothing more, deliver what was taken, end every connection. Parks: meanwhile, for some GRACE at most."""
        if self.link:
            self.link.stop(GRACE)
        self.service.stop(GRACE)
        self.http.stop(GRACE)
        self.lines.stop(GRACE)
        self.stack.pop_all()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
