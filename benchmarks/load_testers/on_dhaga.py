"""The users of `examples/load`, each a dhaga."""

from benchmarks.load_testers.samples import Sample, Work, peak, resident
from examples.load.clients import CLIENTS
from examples.load.load import Load
from examples.load.runner import ClosedLoad, conduct
from examples.load.scenarios import Scenarios
from examples.load.users import User


def visit(user: User) -> None:
    """Get the page."""
    user.get("/")


def measure(url: str, client: str, work: Work) -> Sample:
    """Start the users, and return the sample that begins once all users run."""
    load = Load(url, Scenarios([visit]), CLIENTS[client])
    before = resident()
    book = conduct(load, ClosedLoad(work.users, work.seconds, work.ramp, work.pause))
    figures = book.figures()
    assert book.window is not None
    p50, p99 = (figures.latency(what) for what in ("p50", "p99"))
    memory = (peak() - before) / work.users
    return Sample(book.window.count, book.failed.total, figures.seconds, book.cpu, p50, p99, memory)
