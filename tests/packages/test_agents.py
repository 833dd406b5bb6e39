"""Zero-code agents: programs and doors are patched under the launchers that operators put before their commands."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integrations.gunicorns import Gunicorn
from tests.kit.prefork_programs import Running
from tests.kit.scripts import ROOT
from tests.packages.collector import Collector
from tests.packages.test_doors import CUSTOM, DOORS, FEW, GUNICORN, SERVE, Site, celery_worker, served

pytestmark = [pytest.mark.once, pytest.mark.process]

BIN = Path(sys.executable).parent
LAUNCHERS = {"ddtrace": "ddtrace-run", "newrelic": "newrelic-admin"}
APP = f"{DOORS}.flask_blocking:app"
CROWD_OF_THREADS = """
import threading, time
from opentelemetry import trace
meeting = threading.Barrier(20)
def wait():
    with trace.get_tracer("test").start_as_current_span("wait"):
        meeting.wait(20)
threads = [threading.Thread(target=wait) for _ in range(20)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(type(threads[0]).__module__)
"""


@pytest.fixture
def collector() -> Iterator[Collector]:
    pytest.importorskip("opentelemetry.instrumentation.auto_instrumentation")
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    with Collector() as running:
        yield running


def instrumented(collector: Collector, *command: str) -> tuple[list[str], dict[str, str]]:
    """Return a command under ``opentelemetry-instrument``, without the interpreter before it, and its environment."""
    agent = [str(BIN / "opentelemetry-instrument"), *command]
    return agent, collector.environment | {"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "redis,threading"}


@pytest.mark.long("starts an agent twice")
def test_a_program_under_opentelemetry_is_patched_and_its_spans_arrive(collector: Collector) -> None:
    command, environment = instrumented(collector, sys.executable, "-m", "dhaga", "-c", CROWD_OF_THREADS)
    with Running(ROOT, *command, **environment) as running:
        assert running.end() == 0, running.log
        assert running.process.stdout is not None
        assert running.process.stdout.read() == b"dhaga.threading\n"
    collector.wait_for("wait", 20)


@pytest.mark.long("starts an agent twice, and in each worker")
def test_serve_under_opentelemetry_is_patched_and_each_worker_sends_its_spans(collector: Collector) -> None:
    serve = (sys.executable, "-m", "dhaga", "serve", APP, "--bind", "127.0.0.1:0", "--workers", "2")
    command, environment = instrumented(collector, *serve)
    with Running(ROOT, *command, **environment) as running:
        running.begin(2)
        host, _, port = running.address.partition(":")
        site = Site((host, int(port)), running)
        assert site.get("/patched") == "True"
        site.get_together("/slow", FEW)
        collector.wait_for("GET /slow", FEW)


@pytest.mark.long("starts an agent twice")
@pytest.mark.parametrize("launcher", [(), ("-m", "dhaga")], ids=["gunicorn", "dhaga -m gunicorn"])
@pytest.mark.parametrize("options", [(), ("--preload",)], ids=["", "preload"])
def test_gunicorn_under_opentelemetry_is_patched_and_its_spans_arrive(
    launcher: tuple[str, ...], options: tuple[str, ...], collector: Collector, tmp_path: Path
) -> None:
    _, environment = instrumented(collector)
    agent = (str(BIN / "opentelemetry-instrument"), sys.executable)
    words = {"app": APP, "launcher": launcher, "before": agent}
    with Gunicorn(tmp_path / "log", "-b", "127.0.0.1:0", *options, **words, **environment) as gunicorn:
        gunicorn.workers()
        site = Site(gunicorn.address, gunicorn)
        assert site.get_together(f"/meet/sleep/{FEW}", FEW) == {b"%d" % FEW}
        collector.wait_for("GET /meet/<way>/<int:crowd>", FEW)
        assert not gunicorn.said("unpatched")


@pytest.mark.long("starts an agent twice")
def test_celery_under_opentelemetry_is_patched_and_its_spans_arrive(collector: Collector, tmp_path: Path) -> None:
    pytest.importorskip("celery")
    pytest.importorskip("opentelemetry.instrumentation.celery")
    command, environment = instrumented(collector, str(BIN / "celery"))
    with celery_worker(tmp_path, command, "-P", "custom", tasks=FEW, **CUSTOM, **environment) as (results, log):
        assert set(results) == {FEW}
        assert "unpatched" not in log
    collector.wait_for("run/meet", FEW)


# ---- agents that start no thread before the program


@pytest.mark.long("starts an agent")
@pytest.mark.parametrize("package", LAUNCHERS)
def test_programs_and_doors_are_patched_under_other_launchers(package: str, tmp_path: Path) -> None:
    pytest.importorskip(package)
    launcher = [str(BIN / LAUNCHERS[package]), *(["run-program"] if package == "newrelic" else [])]
    quiet = {"DD_TRACE_ENABLED": "false", "DD_REMOTE_CONFIGURATION_ENABLED": "false", "NEW_RELIC_MONITOR_MODE": "false"}
    program = [*launcher, sys.executable, "-m", "dhaga", "-c", "import threading; print(threading.Thread.__module__)"]
    with Running(ROOT, *program, **quiet) as running:
        assert running.end() == 0, running.log
        assert running.process.stdout is not None
        assert running.process.stdout.read() == b"dhaga.threading\n"
    for door in (SERVE, GUNICORN):
        with served(door, "flask_blocking", tmp_path, before=(*launcher, sys.executable), **quiet) as site:
            assert site.get_together(f"/meet/sleep/{FEW}", FEW) == {b"%d" % FEW}
