"""Sampling profilers: they see the code of dhagas, each sample with its dhaga."""

from __future__ import annotations

import importlib.util
import json
import time
from pathlib import Path

import pytest

from tests.kit.prefork_programs import Running
from tests.kit.scripts import PATIENCE
from tests.packages.test_doors import Site

pytestmark = [pytest.mark.once, pytest.mark.process]

APP = """
import json, sys, threading, time
sys.modules["eventlet"] = sys.modules["gevent"] = None  # Sentry imports them if they are installed

import sentry_sdk
from sentry_sdk.integrations.wsgi import SentryWsgiMiddleware
from sentry_sdk.transport import Transport

profiles = []

class Keep(Transport):
    def capture_envelope(self, envelope):
        profiles.extend(item.payload.json for item in envelope.items if item.type == "profile")

sentry_sdk.init(
    dsn="http://key@127.0.0.1:9/1", transport=Keep, traces_sample_rate=1.0, profiles_sample_rate=1.0,
    default_integrations=False,
)
meeting = threading.Barrier(FEW)

def view():
    meeting.wait(30)
    end = time.monotonic() + 0.03
    while time.monotonic() < end:
        sum(range(500))
    time.sleep(0.01)  # the sampler stops with the last transaction

def threads_of(profile):
    '''Return the idents of the threads that were seen in the view, and that of the transaction.'''
    frames, stacks = profile["frames"], profile["stacks"]
    inside = {number for number, frame in enumerate(frames) if frame["function"] == "view"}
    return {sample["thread_id"] for sample in profile["samples"] if inside & {*stacks[sample["stack_id"]]}}

def answer(environ, start_response):
    if environ["PATH_INFO"] == "/view":
        view()
        body = b"seen"
    else:
        body = json.dumps([
            [sorted(threads_of(each["profile"])), each["transactions"][0]["active_thread_id"],
             sorted(each["profile"]["thread_metadata"])]
            for each in profiles
        ]).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]

traced = SentryWsgiMiddleware(answer)

def app(environ, start_response):
    return (traced if environ["PATH_INFO"] == "/view" else answer)(environ, start_response)
"""
FEW = 10


@pytest.mark.long("computes in ten requests, one after the other")
def test_sentrys_profile_of_serve_shows_the_views_each_with_its_dhaga(tmp_path: Path) -> None:
    if importlib.util.find_spec("sentry_sdk") is None:  # an import would bring eventlet's fork hook
        pytest.skip("sentry-sdk is not installed")
    pytest.importorskip("httptools")
    (tmp_path / "app.py").write_text(APP.replace("FEW", str(FEW)))
    with Running(tmp_path, "-m", "dhaga", "serve", "app:app", "--bind", "127.0.0.1:0") as running:
        running.begin()
        host, _, port = running.address.partition(":")
        site = Site((host, int(port)), running)
        views: set[str] = set()
        deadline = time.monotonic() + PATIENCE
        while len(views) < FEW / 2:  # Sentry leaves out a profile of less than two samples: most, on a busy machine
            assert time.monotonic() < deadline, views
            assert site.get_together("/view", FEW) == {b"seen"}
            profiles = json.loads(site.get("/profiles"))
            views = {active for _, active, _ in profiles}
    seen = {thread for threads, _, _ in profiles for thread in threads}
    assert seen & views, profiles
    assert all(int(thread) < 1000 for thread in seen), "an OS thread's ident, not a dhaga's"
