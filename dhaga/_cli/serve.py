"""``python -m dhaga serve module:app``: parses the command line, and imports the app in the workers."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import logging
import os
import pathlib
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from .._kernel.platform.system import system
from ..http.limits import Limits
from ..monkey import _doors, _early, _real_threads
from ..servers._asgi import is_asgi, refusal
from ..servers._listeners import BACKLOG, Address
from ..servers._service import GRACE
from ..servers._tcp import HANDSHAKE_SECONDS, MAX_CONNECTIONS
from ..socket import socket
from ..ssl import Purpose, SSLContext, create_default_context
from .arguments import CommandLine, count, did_you_mean, extra, or_none, positive_seconds, seconds

if TYPE_CHECKING:
    from ..http.wsgi import Server
    from ..servers._one_process import OneProcess
    from ..servers._prefork import Master

PROGRAM = "python -m dhaga serve"
BIND = "127.0.0.1:8000"
WAY_OUT = "Start it without the code that runs before its first line, such as a .pth file"
logger = logging.getLogger("dhaga")

FOREIGN = {
    **dict.fromkeys(("-b", "--host", "--port", "--listen", "--uds"), "--bind"),
    **dict.fromkeys(("-w", "--processes"), "--workers"),
    **dict.fromkeys(("-t", "--timeout"), "--request-timeout"),
    **dict.fromkeys(("--keep-alive", "--timeout-keep-alive"), "--idle-timeout"),
    **dict.fromkeys(("--worker-connections", "--connection-limit"), "--max-connections"),
    "--limit-concurrency": "--concurrency",
    "--access-logfile": "--access-log",
    "--ssl-certfile": "--certfile",
    "--ssl-keyfile": "--keyfile",
}
"""Options of gunicorn, uvicorn and waitress, each with its counterpart."""

LOG_FORMAT = "%(asctime)s [%(process)d] %(levelname)s %(message)s"


def main(arguments: list[str]) -> int:
    """Serve an app according to the command line, until a signal ends the server. Returns: the exit status."""
    parser = command_line()
    options = parser.parse_args(arguments)
    if options.keyfile and not options.certfile:
        parser.error("--keyfile needs --certfile")
    refuse_missing(parser, options)
    try:
        limits_of(options)
    except ValueError as error:
        parser.error(str(error))
    with extra("serve"):
        from ..http import wsgi  # noqa: F401  (here, before the workers are forked)
    log_to_stderr()
    patch = options.patch and may_patch(options)
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    if patch:
        _real_threads.warn_of_misspelled(_real_threads.named(options.real_threads))
    try:
        return service(options, patch).run()
    except (OSError, ValueError) as error:
        give_up(str(error))


def refuse_missing(parser: CommandLine, options: argparse.Namespace) -> None:
    """Exit with a usage error if an option needs a feature that the platform lacks."""
    given = {
        "--workers": options.workers > 1,
        "--reuse-port": options.reuse_port,
        "--bind unix:": any(isinstance(each, str) for each in options.bind or ()),
    }
    for option, instead in system.MISSING_OPTIONS.items():
        if given[option]:
            parser.error(f"{option} cannot be given on this platform: {instead}")


def log_to_stderr() -> None:
    """Write Dhaga's log records to stderr. The app configures its own logging."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(LOG_FORMAT))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False


def may_patch(options: argparse.Namespace) -> bool:
    """Return whether the workers can be patched. Restart this process if only a restart makes the patch possible.

    If a wanted patch is impossible, log one warning in the master. Raises: SystemExit if the patch is required.
    """
    if not _doors.is_wanted():
        return False
    error = _doors.obstacle()
    if error is not None and _early.is_own_command() and _early.can_restart():
        _early.restart(puts_off=True)
    if error is not None and (options.require_patch or _doors.is_required()):
        raise SystemExit(_doors.refusal_line(PROGRAM, error, f"{WAY_OUT}, or give --no-patch"))
    if error is not None:
        logger.warning("%s", _doors.unpatched_line(PROGRAM, error, WAY_OUT))
    return error is None


def service(options: argparse.Namespace, patch: bool) -> Master | OneProcess:
    """Return the master of the workers. On a platform without fork, return the server of this one process."""
    common: dict[str, Any] = {
        "threads": options.threads,
        "grace": options.graceful_timeout,
        "backlog": options.backlog,
        "scheme": "https" if options.certfile else "http",
    }
    setup, where = lambda: set_up_worker(options, patch), options.bind or [address(BIND)]
    if system.FORKS:
        from ..servers._prefork import Master

        return Master(setup, where, workers=options.workers, reuse_port=options.reuse_port, **common)
    from ..servers._one_process import OneProcess

    return OneProcess(setup, where, **common)


def give_up(why: str) -> NoReturn:
    """Exit with a message, which the interpreter prints."""
    raise SystemExit(f"{PROGRAM}: {why}")


# ---- the command line


def command_line() -> CommandLine:
    parser = CommandLine(
        "serve",
        "MODULE:APP",
        description="Serve the WSGI app APP of MODULE, or the app that MODULE:FACTORY() returns. The standard library "
        "is patched first, so that blocking calls park. SIGHUP reloads the app; SIGTERM finishes the requests; SIGINT "
        "(Ctrl+C) and SIGQUIT exit at once.",
        foreign=FOREIGN,
    )
    add = parser.add_argument
    add("app", metavar="MODULE:APP", type=app, help=argparse.SUPPRESS)
    add(
        "--bind",
        metavar="ADDRESS",
        action="append",
        type=address,
        help=f"HOST:PORT, unix:PATH, fd://N (default: {BIND})",
    )
    add("--workers", metavar="N", type=count, default=1, help="worker processes (default: 1)")
    add("--threads", metavar="N", type=count, default=1, help="OS threads per process (default: 1)")
    add("--concurrency", metavar="N", type=or_none(count), help="requests in the app per thread; more wait")
    add("--certfile", metavar="FILE", help="certificate chain for HTTPS (PEM)")
    add("--keyfile", metavar="FILE", help="its private key, if in another file")
    add("--access-log", metavar="FILE", nargs="?", const="-", help="log each request, to stdout without FILE")
    add("--no-patch", dest="patch", action="store_false", help="leave the standard library: blocking calls block")
    help = "do not serve unpatched where the patch comes too late (default)"
    add("--require-patch", action=argparse.BooleanOptionalAction, default=True, help=help)
    add("--cooperative", action="store_true", help="do not preempt views that compute")
    help = "a module whose threads stay OS threads; repeatable"
    add("--real-threads", metavar="MODULE", action="append", default=[], help=help)
    help = f"time for requests to finish at the end (default: {GRACE:g})"
    add("--graceful-timeout", metavar="SECONDS", type=seconds, default=GRACE, help=help)
    help = f"open connections per thread (default: {MAX_CONNECTIONS})"
    add("--max-connections", metavar="N", type=count, default=MAX_CONNECTIONS, help=help)
    help = f"connections that wait to be accepted (default: {BACKLOG})"
    add("--backlog", metavar="N", type=count, default=BACKLOG, help=help)
    add("--reuse-port", action="store_true", help="a listening socket in each worker, not a shared one")
    help = f"time for a TLS handshake (default: {HANDSHAKE_SECONDS:g})"
    add("--handshake-timeout", metavar="SECONDS", type=positive_seconds, default=HANDSHAKE_SECONDS, help=help)
    add_limits(parser.add_argument_group("limits of a client's requests (none: no limit)"))
    return parser


LIMITED = {
    "line": "bytes of the request line, or of a field",
    "head": "bytes of all lines together",
    "fields": "header fields",
    "body": "bytes of a body",
    "idle_timeout": "time between two requests",
    "header_timeout": "time of a head, from its first byte to its last",
    "body_timeout": "time for each piece of a body",
    "min_body_rate": "bytes of a body that a client sends per second",
    "write_timeout": "time for each 64 KB of a response",
    "queue_timeout": "time that --concurrency may hold back a request",
    "request_timeout": "time for the app to answer; then 503, and its stack in the log",
}
"""The help text of each field of ``Limits``."""


def add_limits(group: argparse._ArgumentGroup) -> None:
    """Add an option for each field of ``Limits``, such as ``--idle-timeout`` or ``--max-body``."""
    for field in dataclasses.fields(Limits):
        timed = field.name.endswith("_timeout")
        plain = timed or field.name.startswith("min_")
        default = "none" if field.default is None else f"{field.default:g}" if timed else str(field.default)
        group.add_argument(
            f"--{'' if plain else 'max-'}{field.name.replace('_', '-')}",
            dest=field.name,
            metavar="SECONDS" if timed else "N",
            type=or_none(positive_seconds if timed else count),
            default=field.default,
            help=f"{LIMITED[field.name]} (default: {default})",
        )


def app(text: str) -> str:
    if not all(text.partition(":")):
        raise argparse.ArgumentTypeError(f"{text!r} does not name an app: write MODULE:APP")
    return text


def address(text: str) -> Address:
    """Return the address that a command-line argument describes."""
    path = text.removeprefix("unix:").removeprefix("//")
    if text.startswith("unix:") and path:  # an empty path would be a random address
        return path
    if text.startswith("fd://"):
        return inherited_socket(text.removeprefix("fd://"))
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535 or (":" in host and not host.startswith("[")):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not an address: HOST:PORT, [::1]:PORT for IPv6, :PORT for every interface, unix:PATH, fd://N"
        )
    return host.removeprefix("[").removesuffix("]"), int(port)


def inherited_socket(number: str) -> socket:
    """Return a listening socket that this process inherited from its parent, such as systemd."""
    try:
        return socket(fileno=int(number))
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"fd://{number} is not a socket inherited by this process: {error}") from None


# ---- in a worker


def set_up_worker(options: argparse.Namespace, patch: bool) -> Callable[[Address], Server]:
    """Apply the patch if ``patch`` is true, then call ``set_up``. From: a worker; the master stays unpatched."""
    if patch:
        _doors.patch_after(cooperative=options.cooperative, real_threads=options.real_threads)
        _early.run_next()
    return set_up(options)


def set_up(options: argparse.Namespace) -> Callable[[Address], Server]:
    """Import the app and read the certificate; each worker does this. Returns: a function that creates a server."""
    from ..http.wsgi import Server

    app = load(options.app)
    context = None if options.certfile is None else tls_context(options.certfile, options.keyfile)
    limits = limits_of(options)
    access_log = open_log(options.access_log)

    def make_server(where: Address) -> Server:
        return Server(
            app,
            where,
            limits=limits,
            access_log=access_log,
            concurrency=options.concurrency,
            multiprocess=options.workers > 1,
            ssl_context=context,
            max_connections=options.max_connections,
            handshake_timeout=options.handshake_timeout,
        )

    return make_server


def limits_of(options: argparse.Namespace) -> Limits:
    """Return the limits that the options set. Raises: ValueError for ``none`` where a limit is needed."""
    return Limits(**{field.name: getattr(options, field.name) for field in dataclasses.fields(Limits)})


def load(target: str) -> Any:
    """Return the app that ``module:attribute`` names, or that ``module:factory()`` returns.

    Raises: SystemExit with the reason.
    """
    name, _, path = target.partition(":")
    found: Any = import_app(name)
    for part in path.removesuffix("()").split("."):
        if not hasattr(found, part):
            give_up(f"{target!r}: {found!r} has no {part!r}{did_you_mean(part, dir(found))}")
        found = getattr(found, part)
    if path.endswith("()"):
        found = found()
    if not callable(found):
        give_up(f"{target!r} is {found!r}, not a WSGI app: a WSGI app is called with environ and start_response")
    if is_asgi(found):
        give_up(refusal(target))
    return found


def import_app(name: str) -> Any:
    """Import a module. An import error inside the module is raised unchanged."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        if os.path.isfile(name):
            give_up(f"{name!r} is a file: write the name of its module, such as {pathlib.Path(name).stem}:app")
        where = ", ".join(each or os.getcwd() for each in sys.path)
        give_up(f"there is no module {error.name!r} in {where}")


def tls_context(certfile: str, keyfile: str | None) -> SSLContext:
    context = create_default_context(Purpose.CLIENT_AUTH)
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(certfile, keyfile)
    except OSError as error:
        give_up(f"no certificate with its key in {' and '.join(filter(None, (certfile, keyfile)))}: {error}")
    return context


def open_log(path: str | None) -> Any:
    """Open the access log. Each worker does this, so that a reload reopens a rotated file."""
    if path is None:
        return None
    if path == "-" and sys.stdout is None:
        give_up("no access log: standard output is closed")
    try:
        file = stdout_by_line() if path == "-" else open_text(path)
    except OSError as error:
        give_up(f"no access log: {error}")
    return in_colour(file) if path == "-" and has_colour(file) else file


def open_text(path: str) -> TextIO:
    return open(path, "a", buffering=1, encoding="utf-8")


def stdout_by_line() -> TextIO:
    return open(sys.stdout.fileno(), "a", buffering=1, encoding="utf-8", closefd=False)


STATUS = re.compile(r'(?<=" )([1-5])[0-9]{2}(?= )')
STATUS_COLOURS = {"2": "32", "3": "36", "4": "33", "5": "1;31"}
"""Terminal colors by the first digit of the status: green, cyan, yellow, bold red."""


def has_colour(file: TextIO) -> bool:
    """Return whether a file is a terminal that shows colors and whose user wants them (https://no-color.org)."""
    return file.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


def in_colour(file: TextIO) -> Callable[[str], object]:
    """Return a function that writes a line of the access log and colors the status."""

    def coloured(status: re.Match[str]) -> str:
        return f"\x1b[{STATUS_COLOURS.get(status[1], '0')}m{status[0]}\x1b[0m"

    return lambda line: file.write(STATUS.sub(coloured, line, count=1) + "\n")
