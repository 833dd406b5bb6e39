"""``threading.settrace`` and ``setprofile``: each Thread begins with their functions, and keeps them while it waits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.scripts import prints

pytestmark = pytest.mark.once

SEEN = """
    import sys, {threading} as threading, {time} as time
    lines, calls = [], []

    def work():
        x = 1
        time.sleep(0.01)
        return x

    def trace(frame, event, arg):
        if frame.f_code is work.__code__ and event == "line":
            lines.append(frame.f_lineno)
        return trace

    def profile(frame, event, arg):
        if frame.f_code is work.__code__ and event in ("call", "return"):
            calls.append(event)

    def run():
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    """

FORMS = [("threading", "time", ("-m", "dhaga")), ("dhaga.threading", "dhaga.time", ())]


def prints_by(form: tuple[str, str, tuple[str, ...]], code: str, tmp_path: Path) -> list[str]:
    """Run the program patched, or with the faces."""
    threading, time, options = form
    path = tmp_path / "program.py"
    text = "\n".join(line[4:] for line in SEEN.format(threading=threading, time=time).splitlines())
    path.write_text(text + "\n" + code)
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, *options, path], capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": str(root)},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


forms = pytest.mark.parametrize("form", FORMS, ids=["patched", "native"])


@forms
def test_threads_begin_with_the_functions_and_keep_them_through_their_waits(form: object, tmp_path: Path) -> None:
    code = """
threading.settrace(trace); run(); threading.settrace(None)
threading.setprofile(profile); run(); threading.setprofile(None)
print(len(lines), sorted(calls))
run()
print(len(lines), len(calls), sys.gettrace(), sys.getprofile())
"""
    found = prints_by(form, code, tmp_path)
    assert found == [f"9 {['call'] * 3 + ['return'] * 3}", "9 6 None None"]


@forms
def test_each_waiter_has_its_own_function(form: object, tmp_path: Path) -> None:
    code = """
def names(name):
    def function(frame, event, arg):
        return function
    function.__name__ = name
    return function

def first():
    before = sys.gettrace().__name__
    sys.settrace(names("first"))
    time.sleep(0.01)
    print(before, sys.gettrace().__name__)

def second():
    time.sleep(0.005)
    print(sys.gettrace().__name__)
    sys.settrace(None)
    time.sleep(0.01)
    print(sys.gettrace())

sys.settrace(names("main"))
threading.settrace(names("hook"))
threads = [threading.Thread(target=each) for each in (first, second)]
for each in threads:
    each.start()
for each in threads:
    each.join()
print(sys.gettrace().__name__)
sys.settrace(None)
"""
    found = prints_by(form, code, tmp_path)
    assert sorted(found) == sorted(["hook", "hook first", "None", "main"])


@pytest.mark.skipif(sys.version_info < (3, 12), reason="settrace_all_threads came with Python 3.12")
@forms
def test_the_functions_of_all_threads_reach_those_that_wait(form: object, tmp_path: Path) -> None:
    code = """
go = threading.Event()
def waits():
    go.wait()
    work()
def run_all():
    threads = [threading.Thread(target=waits) for _ in range(2)]
    for each in threads:
        each.start()
    yield
    go.set()
    for each in threads:
        each.join()
for begins in (None, lambda *_: None):
    threading.settrace(begins)
    go.clear()
    for _ in run_all():
        threading.settrace_all_threads(trace)
        threading.setprofile_all_threads(profile)
    threading.settrace_all_threads(None)
    threading.setprofile_all_threads(None)
    print(len(lines), len(calls), sys.gettrace(), sys.getprofile())
    lines.clear(), calls.clear()
"""
    found = prints_by(form, code, tmp_path)
    assert found == ["6 4 None None", "6 4 None None"]


@forms
@pytest.mark.parametrize("among", ["", "threading.setprofile(profile); "], ids=["after", "beside"])
def test_a_profiler_in_c_stays_set_through_waits(form: object, among: str, tmp_path: Path) -> None:
    # Such a profiler is set with an object that need not be callable, and sys.setprofile cannot set the profiler again.
    code = f"""
import ctypes
kind = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.py_object, ctypes.c_int, ctypes.c_void_p)
counted = []

@kind
def count(profiler, frame, event, arg):
    if frame.f_code is work.__code__:
        counted.append(event)
    return 0

threading.setprofile(profile); run(); threading.setprofile(None)
ctypes.pythonapi.PyEval_SetProfile.argtypes = [kind, ctypes.py_object]
ctypes.pythonapi.PyEval_SetProfile(count, [])
{among}run(); threading.setprofile(None)
work()
print(sys.getprofile(), counted.count(0) > 0)
sys.setprofile(None)
"""
    assert prints_by(form, code, tmp_path) == ["[] True"]  # type: ignore[arg-type]


def test_a_loop_of_asyncio_in_a_traced_thread_keeps_the_function() -> None:
    program = """
    import dhaga.monkey; dhaga.monkey.patch()
    import asyncio, sys, threading, time
    def trace(frame, event, arg):
        return trace
    async def main():
        await asyncio.to_thread(time.sleep, 0.01)
        await asyncio.sleep(0.01)
        return sys.gettrace() is trace
    def work():
        time.sleep(0.001)
        print(asyncio.run(main()), sys.gettrace() is trace)
    threading.settrace(trace)
    threads = [threading.Thread(target=work) for _ in range(2)]
    for each in threads: each.start()
    for each in threads: each.join()
    """
    assert prints(program) == ["True True"] * 2


COVERED = """\
import queue
import threading
import time

answers = queue.Queue()


def work(number):
    doubled = number
    time.sleep(0.001)
    doubled += number
    answers.put(doubled)
    for _ in range(2):
        time.sleep(0.001)
        doubled += 1
    return doubled


threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
for each in threads:
    each.start()
for each in threads:
    each.join()
print(sorted(answers.get() for _ in threads))
"""


@pytest.mark.parametrize("core", ["ctrace", "pytrace"])
@pytest.mark.parametrize("inside", [False, True], ids=["coverage-runs-dhaga", "dhaga-runs-coverage"])
def test_coverage_counts_the_lines_of_threads(core: str, inside: bool, tmp_path: Path) -> None:
    pytest.importorskip("coverage")
    (tmp_path / "program.py").write_text(COVERED)
    dhaga, coverage = ["-m", "dhaga"], ["-m", "coverage", "run", "--include=program.py"]
    command = [*dhaga, *coverage] if inside else [*coverage, *dhaga]
    environ = {**os.environ, "COVERAGE_CORE": core, "PYTHONPATH": str(Path(__file__).parents[2])}
    for words in ([*command, "program.py"], ["-m", "coverage", "json", "-o", "lines.json"]):
        subprocess.run([sys.executable, *words], cwd=tmp_path, check=True, capture_output=True, env=environ, timeout=60)
    found = json.loads((tmp_path / "lines.json").read_text())
    assert found["files"]["program.py"]["missing_lines"] == []
