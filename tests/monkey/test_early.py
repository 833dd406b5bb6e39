"""The early patch: a command that finds itself too late restarts once, with a patch before all other code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from dhaga.monkey import _early
from tests.kit.prefork_programs import Running
from tests.kit.scripts import PATIENCE, ROOT

pytestmark = pytest.mark.once

AGENT = """
import os, threading, time
os.environ["PYTHONPATH"] = os.pathsep.join(
    folder for folder in os.environ["PYTHONPATH"].split(os.pathsep) if folder != os.path.dirname(__file__)
)
with open(os.environ["RUNS"], "a") as file:
    print(os.getpid(), threading.Thread.__module__, file=file)
class Exporter(threading.Thread):
    pass
exporter = Exporter(target=lambda: [time.sleep(0.01) for _ in range(10**6)], daemon=True)
exporter.start()
"""
"""An agent that starts a thread, derives a class, and hides itself from the program's children."""

SHOWS = """
import json, os, sys, threading
names = {"PYTHONPATH": os.environ.get("PYTHONPATH"), "mark": "DHAGA_EARLY" in os.environ, "path": sys.path[1:]}
print(json.dumps([names, sys.argv, sys.modules["sitecustomize"].__file__, threading.active_count()]))
"""


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """The file to which the agent in ``tmp_path`` writes a line each time that it runs."""
    (tmp_path / "sitecustomize.py").write_text(AGENT)
    return tmp_path / "runs"


def environment(runs: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{runs.parent}{os.pathsep}{ROOT}", "RUNS": str(runs)}


def run(*command: str, runs: Path, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    words = [python, *command]
    return subprocess.run(words, env=environment(runs), capture_output=True, text=True, timeout=PATIENCE)


def test_a_program_under_an_agent_is_patched_first_and_sees_no_trace_of_it(runs: Path) -> None:
    plain = run("-c", SHOWS, "one", runs=runs)
    here = run("-m", "dhaga", "-c", SHOWS, "one", runs=runs)
    assert here.stderr == ""
    assert json.loads(here.stdout) == json.loads(plain.stdout)
    lines = [line.split() for line in runs.read_text().splitlines()]
    assert [module for _, module in lines] == ["threading", "threading", "dhaga.threading"]
    assert lines[1][0] == lines[2][0], "the restart is another process"


def test_options_survive_the_restart(runs: Path) -> None:
    shows = "from dhaga._kernel.run import preemption; print(preemption.default_quantum)"
    assert run("-m", "dhaga", "--cooperative", "-c", shows, runs=runs).stdout == "None\n"
    assert run("-m", "dhaga", "-c", shows, runs=runs).stdout != "None\n"


def test_serve_leaves_the_agent_to_its_workers(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("import time\ndef app(environ, start): raise SystemExit\n")
    command = ("-m", "dhaga", "serve", "app:app", "--bind", "127.0.0.1:0")
    with Running(tmp_path, *command, **environment(runs)) as running:
        pids = running.begin()
    first, *others = [line.split() for line in runs.read_text().splitlines()]
    assert first == [str(running.process.pid), "threading"]
    assert others == [[str(pids[0]), "dhaga.threading"]]


def test_what_precedes_every_sitecustomize_is_named_with_its_place(runs: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", symlinks=True)
    (site_packages,) = (tmp_path / "venv/lib").glob("*/site-packages")
    (tmp_path / "sitecustomize.py").rename(site_packages / "first.py")
    known = [path for path in sys.path if path.endswith("site-packages")]
    (site_packages / "first.pth").write_text("\n".join([*known, "import first"]))
    ended = run("-m", "dhaga", "-c", SHOWS, runs=runs, python=str(tmp_path / "venv/bin/python"))
    assert ended.returncode == 1
    (error,) = [line for line in ended.stderr.splitlines() if line.startswith("dhaga.monkey.PatchError")]
    assert f"which runs first.<lambda> ({site_packages / 'first.py'}:10)" in error
    assert "`import first`, as first.Exporter is derived from threading.Thread" in error
    assert len(runs.read_text().splitlines()) == 2, "it has restarted more than once"


def test_a_process_that_reads_no_path_does_not_restart(runs: Path) -> None:
    asks = "from dhaga.monkey import _early; print(_early.can_restart())"
    assert [run(option, "-c", asks, runs=runs).stdout for option in ("-E", "-B")] == ["False\n", "True\n"]


def test_the_path_of_a_restart_begins_with_our_folder_and_keeps_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "sitecustomize", raising=False)
    assert _early.path_of_restart("") == _early.FOLDER
    assert _early.path_of_restart(f"/a{os.pathsep}/b").split(os.pathsep) == [_early.FOLDER, "/a", "/b"]
