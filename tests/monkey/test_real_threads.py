"""Modules whose threads stay OS threads: they run beside code that never parks, and see which dhaga runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dhaga.monkey import _real_threads
from tests.kit.scripts import PATIENCE, ROOT, prints
from tests.monkey.test_early import run

pytestmark = pytest.mark.once

SAMPLER = """
import sys, threading, time
from threading import Thread
from time import sleep

class Derived(threading.Thread):
    pass

def beats(count, kind=Thread):
    '''Return a list to which a thread appends what it sees, so many times.'''
    seen = []
    def look():
        import threading, time
        for _ in range(count):
            time.sleep(0.001)
            sleep(0.001)
            seen.append({frame.f_code.co_name: ident for ident, frame in sys._current_frames().items()})
    kind(target=look, daemon=True).start()
    return seen
"""
"""A profiler that samples from a thread of its own."""

COMPUTES = f"""
import threading, time, sampler
def compute():
    end = time.monotonic() + {PATIENCE}
    while len(seen) < 3 and time.monotonic() < end:
        pass
"""
"""A function that computes, without a park, until three samples have been taken."""


@pytest.fixture
def sampler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The text that puts a module ``sampler`` on the path of a program."""
    (tmp_path / "sampler.py").write_text(SAMPLER)
    return f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"


@pytest.mark.parametrize("kind", ["threading.Thread", "sampler.Derived", "sampler.Thread"])
@pytest.mark.parametrize("early", [True, False], ids=["imported before the patch", "imported after it"])
def test_its_thread_runs_beside_code_that_never_parks(kind: str, early: bool, sampler: str) -> None:
    kind = kind.replace("threading.", "sampler.threading.")
    assert prints(
        sampler
        + ("import sampler\n" if early else "")
        + "import dhaga.monkey; dhaga.monkey.patch(cooperative=True, real_threads=['sampler'])\n"
        + COMPUTES
        + f"seen = sampler.beats(10**6, {kind})\ncompute(); print(len(seen) >= 3)\n"
        + "print(threading.Thread.__module__, sampler.threading.Lock is threading.Lock)\n"
    ) == ["True", "dhaga.threading True"]


def test_a_sample_names_the_dhaga_that_runs_and_main_code(sampler: str) -> None:
    assert prints(
        sampler
        + "import dhaga.monkey; dhaga.monkey.patch(cooperative=True, real_threads=['sampler'])\n"
        + COMPUTES
        + """
seen = sampler.beats(10**6)
thread = threading.Thread(target=compute)
thread.start()
thread.join()
print(thread.ident in {each.get("compute") for each in seen}, thread.ident < 100)
seen.clear()
compute()
print(threading.get_ident() in {each.get("compute") for each in seen})
"""
    ) == ["True True", "True"]


def test_in_other_modules_threads_are_dhagas(sampler: str) -> None:
    assert prints(
        sampler
        + """
import dhaga.monkey
dhaga.monkey.patch()
import sampler, threading, sys
print(sampler.Thread is threading.Thread, sampler.threading is threading, sampler.sys is sys)
"""
    ) == ["True True True"]


def test_unpatch_leaves_nothing(sampler: str) -> None:
    assert prints(
        sampler
        + """
import sampler, threading
import dhaga.monkey
dhaga.monkey.patch(real_threads=["sampler"])
print(sampler.threading is threading, sampler.Thread is threading.Thread)
dhaga.monkey.unpatch()
print(sampler.threading is threading, sampler.Thread is threading.Thread, dhaga.monkey._real_threads.active)
"""
    ) == ["False False", "True True ()"]


ASKS = "import sampler; print(sampler.Thread.__module__)"


@pytest.mark.parametrize(
    ("options", "environment", "module"),
    [
        ((), "", "dhaga.threading"),
        (("--real-threads", "sampler"), "", "threading"),
        (("--real-threads=sampler",), "", "threading"),
        ((), "other, sampler", "threading"),
    ],
)
def test_the_command_line_and_the_environment_name_modules(
    options: tuple[str, ...], environment: str, module: str, sampler: str
) -> None:
    names = {_real_threads.VARIABLE: environment}
    assert prints(sampler + ASKS, "-m", "dhaga", *options, **names) == [module]


def test_the_restart_under_an_agent_keeps_them(tmp_path: Path, sampler: str) -> None:
    from tests.monkey.test_early import AGENT

    (tmp_path / "sitecustomize.py").write_text(AGENT)
    ended = run("-m", "dhaga", "--real-threads", "sampler", "-c", sampler + ASKS, runs=tmp_path / "runs")
    assert (ended.stdout, ended.stderr) == ("threading\n", "")


@pytest.mark.parametrize(
    ("name", "real"),
    [
        ("sentry_sdk.profiler", True),
        ("sentry_sdk.profiler.transaction_profiler", True),
        ("sentry_sdk.profilers", False),
    ],
)
def test_submodules_are_included(name: str, real: bool) -> None:
    before = _real_threads.active
    _real_threads.activate([])
    try:
        assert _real_threads.is_real(name) is real
    finally:
        _real_threads.active = before


def test_one_name_is_no_list_of_names() -> None:
    with pytest.raises(TypeError, match=r"takes several names, \['prof'\], and not 'prof'"):
        _real_threads.activate("prof")


def test_a_name_set_in_a_view_is_set_in_its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    view = _real_threads.View(threading, {"Thread": None})
    view.excepthook, view.Thread = print, int
    assert threading.excepthook is print and view.Thread is int
    assert threading.Thread is not int


def test_a_view_shows_the_rest_of_its_module() -> None:
    import time

    view = _real_threads.View(time, {"sleep": None})
    assert (view.sleep, view.monotonic, view.__name__) == (None, time.monotonic, "time")
    assert "gmtime" in dir(view)
    with pytest.raises(AttributeError):
        view.nothing


# ---- misspelled names


@pytest.mark.logs
@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("pyroscop", "pyroscope"),
        ("sentry_sdk.profilr", "sentry_sdk.profiler"),
        ("samplr", "sampler"),
        ("concurent.futures", "concurrent"),
        ("concurrent.future", "concurrent.futures"),
        ("json.encodr.x", "json.encoder"),
    ],
)
def test_a_misspelled_module_is_logged_once_with_the_similar_one(
    name: str, meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "sampler.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(_real_threads, "warned_of", set())
    for _ in range(2):
        _real_threads.warn_of_misspelled([name])
    assert caplog.messages == [f"real threads: there is no module {name}: did you mean {meant}?"]


@pytest.mark.parametrize(
    "name",
    ["threading", "__main__", "sys", "concurrent.futures.thread", "pyroscope", "mycompany.watchdog", "zipimport"],
)
def test_a_module_that_exists_or_resembles_no_other_causes_no_warning(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    _real_threads.warn_of_misspelled([name])
    assert caplog.messages == []


def test_no_package_is_imported_to_find_a_submodule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "unimported").mkdir()
    (tmp_path / "unimported/__init__.py").write_text("raise AssertionError")
    (tmp_path / "unimported/inner.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert _real_threads.similar_module("unimported.inner") is None
    assert _real_threads.similar_module("unimported.iner") == "unimported.inner"


@pytest.mark.parametrize("given", ["option", "variable", "argument"])
def test_the_patch_checks_the_names(given: str, tmp_path: Path) -> None:
    patch = "from dhaga import monkey; monkey.patch(real_threads=['threadng'])" if given == "argument" else ""
    (tmp_path / "program.py").write_text(patch)
    runner = ["-m", "dhaga", *(["--real-threads", "threadng"] if given == "option" else [])]
    done = subprocess.run(
        [sys.executable, *([] if given == "argument" else runner), "program.py"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            **({"DHAGA_REAL_THREADS": "threadng"} if given == "variable" else {}),
        },
        stderr=subprocess.PIPE,
        text=True,
    )
    assert done.stderr == "real threads: there is no module threadng: did you mean threading?\n"
