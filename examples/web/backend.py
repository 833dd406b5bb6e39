"""The slow service behind the app: a second for each answer, any number at once. `python -m examples.web.backend`."""

from __future__ import annotations

import argparse
import asyncio

from tornado.web import Application, RequestHandler

SECONDS = 1.0


class Rows(RequestHandler):
    """What a report is made of."""

    async def get(self, number: str) -> None:
        """Take a second, then answer."""
        await asyncio.sleep(self.settings["seconds"])
        self.write({"rows": [int(number)] * 10})


async def main() -> None:
    """Serve for ever; the port is printed."""
    parser = argparse.ArgumentParser(prog="python -m examples.web.backend")
    parser.add_argument("--port", type=int, default=8001, help="0: any")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"for each answer ({SECONDS:g})")
    options = parser.parse_args()
    app = Application([(r"/rows/(\d+)", Rows)], seconds=options.seconds, log_function=lambda handler: None)
    server = app.listen(options.port, "127.0.0.1", backlog=4096)
    print(next(iter(server._sockets.values())).getsockname()[1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
