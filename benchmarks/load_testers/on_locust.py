"""The users of Locust, each a gevent greenlet, in a run without Locust's web page and printed tables."""

from gevent import monkey

monkey.patch_all()

from typing import Any  # noqa: E402

import gevent  # noqa: E402
from locust import FastHttpUser, HttpUser, constant  # noqa: E402
from locust.env import Environment  # noqa: E402

from benchmarks.load_testers.samples import Meter, Sample, Work, peak, resident  # noqa: E402

KINDS: Any = {"HttpUser": HttpUser, "FastHttpUser": FastHttpUser}
TURN = 0.05  # seconds between two checks whether all users have started


def visit(user: Any) -> None:
    """Get the page."""
    user.client.get("/")


def measure(url: str, client: str, work: Work) -> Sample:
    """Start the users, and return the sample that begins once all users run."""

    users = type("Visitor", (KINDS[client],), {"host": url, "wait_time": constant(work.pause), "tasks": [visit]})
    environment = Environment(user_classes=[users])
    runner = environment.create_local_runner()
    before = resident()
    runner.start(work.users, spawn_rate=work.users / work.ramp)
    while runner.user_count < work.users:
        gevent.sleep(TURN)
    return window(environment, before, work)


def window(environment: Environment, before: float, work: Work) -> Sample:
    """Measure for the seconds of the work."""
    total = environment.stats.total
    environment.stats.reset_all()
    meter = Meter()
    gevent.sleep(work.seconds)
    seconds, cpu = meter.read()
    p50, p99 = (total.get_response_time_percentile(point) / 1e3 for point in (0.5, 0.99))
    memory = (peak() - before) / work.users
    return Sample(total.num_requests, total.num_failures, seconds, cpu, p50, p99, memory)
