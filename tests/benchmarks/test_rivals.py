"""A rival's process is free of Dhaga, whose kept frame chunks would serve a rival's greenlets and threads as well."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

RIVALS = {
    "benchmarks.compat.__main__": (),
    "benchmarks.compat.eventlet_programs": ("eventlet",),
    "benchmarks.compat.gevent_programs": ("gevent",),
    "benchmarks.http_client": ("requests",),
    "benchmarks.kernel.child": (),
    "benchmarks.kernel.on_asyncio": (),
    "benchmarks.kernel.on_gevent": ("gevent",),
    "benchmarks.kernel.on_raw": (),
    "benchmarks.kernel.on_threads": (),
    "benchmarks.leaving.__main__": (),
    "benchmarks.leaving.on_gevent": ("gevent",),
    "benchmarks.load_testers.samples": (),
    "benchmarks.notifications": (),
    "benchmarks.pipeline.apps": (),
    "benchmarks.pipeline.servers": (),
    "benchmarks.rate_model.child": (),
    "benchmarks.service.asyncpg_site": ("asyncpg", "fastapi"),
    "benchmarks.service.django_wsgi": ("django",),
    "benchmarks.service.fastapi_site": ("fastapi",),
    "benchmarks.service.flask_site": (),
    "benchmarks.service.on_gevent": (),
    "benchmarks.swap": (),
    "benchmarks.tls": ("trustme",),
    "benchmarks.web.apps": (),
    "benchmarks.web.servers": (),
    "benchmarks.young.child": (),
    "benchmarks.young.simulations": (),
    "examples.notifications.threaded_server": (),
}
"""What processes of rivals import, each with the packages that it needs."""


@pytest.mark.once
@pytest.mark.parametrize("module", RIVALS)
def test_what_a_rival_imports_does_not_import_dhaga(module: str) -> None:
    for package in RIVALS[module]:
        if find_spec(package) is None:
            pytest.skip(f"needs {package}")
    code = f"import sys, {module}; print(sorted(each for each in sys.modules if each.startswith('dhaga')))"
    command = [sys.executable, "-W", "ignore", "-c", code]
    # As where it is measured: eventlet's name resolution breaks beside some versions of dnspython.
    environ = {**os.environ, "EVENTLET_NO_GREENDNS": "yes"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environ)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")
