"""``python -m dhaga SCRIPT``: the program finds what it would find without us, and ends as it would."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.kit.scripts import PATIENCE, ROOT

pytestmark = pytest.mark.once

SHOWS = """\
import sys, threading, __main__
print(sys.argv, sys.path[0], __name__, __file__, getattr(__spec__, "name", None), __package__)
print(globals().get("__cached__"))
print(__main__.__dict__ is globals(), sorted(name for name in globals() if name.startswith("__")))
print(threading.Thread.__module__, threading.current_thread() is threading.main_thread(), file=sys.stderr)
"""

ENDS = """\
import sys, threading, time

class Own(Exception):
    pass

def inner():
    raise Own("at the end")

how = sys.argv[1]
threading.Thread(target=lambda: (time.sleep(0.02), print("waited for", flush=True))).start()
if how == "error": inner()
if how == "status": sys.exit(7)
if how == "text": sys.exit("the end")
if how == "interrupt": raise KeyboardInterrupt
"""


def start(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(*arguments: str, cwd: Path, text: str = "") -> tuple[int, str, str]:
    process = start(*arguments, cwd=cwd)
    out, err = process.communicate(text, timeout=PATIENCE)
    return process.returncode, out, err


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("programs")
    (here / "package").mkdir()
    (here / "package" / "__init__.py").touch()
    for name in ("shows.py", "serve", "package/__main__.py"):
        (here / name).write_text(SHOWS)
    (here / "ends.py").write_text(ENDS)
    (here / "wrong.py").write_text("def f(:\n")
    with zipfile.ZipFile(here / "archive.zip", "w") as archive:
        archive.writestr("__main__.py", SHOWS)
    return here


@pytest.mark.parametrize(
    "arguments",
    [
        ("shows.py", "one", "-two"),
        ("./serve",),
        ("-m", "shows", "one"),
        ("-m", "package"),
        ("package",),
        ("archive.zip", "-m"),
    ],
    ids=" ".join,
)
def test_a_program_finds_what_it_would_find_without_us(folder: Path, arguments: tuple[str, ...]) -> None:
    status, out, err = run("-m", "dhaga", *arguments, cwd=folder)
    assert (status, out) == run(*arguments, cwd=folder)[:2]
    assert err == "dhaga.threading True\n"


@pytest.mark.parametrize("how", ["well", "error", "status", "text", "interrupt"])
def test_a_program_ends_as_it_would_without_us(folder: Path, how: str) -> None:
    assert run("-m", "dhaga", "ends.py", how, cwd=folder) == run("ends.py", how, cwd=folder)


def test_a_program_that_cannot_be_compiled_shows_its_error_alone(folder: Path) -> None:
    assert run("-m", "dhaga", "wrong.py", cwd=folder) == run("wrong.py", cwd=folder)


def test_a_text_and_standard_input_are_programs(folder: Path) -> None:
    text = "import sys, threading; print(sys.argv, repr(sys.path[0]), __name__, threading.Thread.__module__)"
    what = "'' __main__ dhaga.threading\n"
    assert run("-m", "dhaga", "-c", text, "one", cwd=folder) == (0, f"['-c', 'one'] {what}", "")
    assert run("-m", "dhaga", "-", "one", cwd=folder, text=text) == (0, f"['-', 'one'] {what}", "")


@pytest.mark.parametrize(
    "text",
    [
        "    print(1)\n    print(2)\n",
        "\n  if 1:\n    print(1)\n  raise SystemExit(3)\n",
        "print(1)\n  print(2)\n",
        "(\n",
    ],
)
def test_a_text_is_indented_as_python_allows_and_its_errors_are_shown_alone(folder: Path, text: str) -> None:
    assert run("-m", "dhaga", "-c", text, cwd=folder) == run("-c", text, cwd=folder)


def test_standard_input_that_cannot_be_compiled_shows_its_error_alone(folder: Path) -> None:
    assert run("-m", "dhaga", "-", cwd=folder, text="(\n") == run("-", cwd=folder, text="(\n")


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("nowhere.py",), 2, "nowhere.py', and there is no command 'nowhere.py'"),
        (("-m", "nowhere"), 1, "No module named nowhere"),
        (("-m", "package.nowhere"), 1, "No module named package.nowhere"),
        (("-m",), 2, "argument expected for the -m option"),
        (("--wrong",), 2, "there is no option --wrong"),
    ],
)
def test_what_cannot_be_run_is_said(folder: Path, arguments: tuple[str, ...], status: int, said: str) -> None:
    ended, out, err = run("-m", "dhaga", *arguments, cwd=folder)
    assert (ended, out) == (status, "") and err.startswith("python -m dhaga: ") and said in err.splitlines()[0]


def test_a_program_of_a_package_that_is_imitated_is_told_the_option(folder: Path) -> None:
    text = "import sys; sys.modules['gevent'] = None; import gevent"
    _, _, err = run("-m", "dhaga", "-c", text, cwd=folder)
    assert err.splitlines()[-1] == "python -m dhaga --as gevent … provides Dhaga's own gevent"


def test_without_arguments_the_usage_is_printed(folder: Path) -> None:
    status, out, _ = run("-m", "dhaga", cwd=folder)
    assert status == 0 and out.startswith("usage: python -m dhaga SCRIPT") and "./serve" in out


@pytest.mark.parametrize("waits", ["threading.Event().wait()", "time.sleep(60)", "thread.join()"])
def test_ctrl_c_ends_a_program_as_it_would_without_us(folder: Path, waits: str) -> None:
    (folder / "waits.py").write_text(f"""\
import threading, time
thread = threading.Thread(target=time.sleep, args=(60,), daemon=True)
thread.start()
try:
    print("waiting", flush=True)
    {waits}
finally:
    print("finally")
""")
    process = start("-m", "dhaga", "waits.py", cwd=folder)
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (-signal.SIGINT, "finally\n")
    assert err.startswith("Traceback") and "\nKeyboardInterrupt\n" in err and "dhaga/_cli/run.py" not in err


def test_ctrl_c_ends_the_wait_for_threads_at_exit(folder: Path) -> None:
    (folder / "exits.py").write_text("""\
import atexit, threading, time
atexit.register(print, "exit handler")
thread = threading.Thread(target=time.sleep, args=(60,))
thread.start()
threading.Timer(0.2, print, ("main has ended",), {"flush": True}).start()
""")
    process = start("-m", "dhaga", "exits.py", cwd=folder)
    assert process.stdout is not None
    assert process.stdout.readline() == "main has ended\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (0, "exit handler\n") and "\nKeyboardInterrupt" in err


def test_processes_are_started_from_a_program(folder: Path) -> None:
    """By fork they are patched, too; spawned, they import the script, but nobody has patched them."""
    (folder / "processes.py").write_text("""\
import multiprocessing, sys, threading

def tell(queue):
    queue.put((threading.Thread.__module__, __name__, sys.modules["__main__"].__file__ == __file__))

if __name__ == "__main__":
    for how in ("fork", "spawn"):
        context = multiprocessing.get_context(how)
        queue = context.SimpleQueue()
        process = context.Process(target=tell, args=(queue,))
        process.start()
        print(queue.get())
        process.join()
        print(process.exitcode)
""")
    assert run("-m", "dhaga", "processes.py", cwd=folder) == (
        0,
        "('dhaga.threading', '__main__', True)\n0\n('threading', '__mp_main__', True)\n0\n",
        "",
    )


def test_pytest_runs_in_a_project_whose_warnings_are_errors(folder: Path) -> None:
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    (folder / "test_it.py").write_text("def test_it(): pass\n")
    alone = dict.fromkeys(("PYTEST_ADDOPTS", "PYTEST_PLUGINS"), "")
    done = subprocess.run(
        [sys.executable, "-m", "dhaga", "-m", "pytest", "-p", "no:cacheprovider", "-q"],
        cwd=folder,
        env={**os.environ, **alone, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr
