"""The command lines of the examples: each explains itself, also where the packages of the extra are not installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from examples._late import Late
from examples.backup.demo import in_short, result
from examples.backup.jobs import Summary
from tests.kit.scripts import PATIENCE, ROOT

PROGRAMS = (
    "backup",
    "backup.demo",
    "cluster",
    "load",
    "migrate",
    "notifications",
    "notifications.chaos",
    "park",
    "simulation",
    "wal",
)
PROGRAMS += ("notifications.client", "web", "web.backend", "web.compare")
EXTRAS = ("blake3", "celery", "flask", "gunicorn", "hdrh", "httptools", "kombu", "msgpack", "redis", "requests")
EXTRAS += ("rich", "tqdm", "urllib3", "wsproto", "zstandard")

WITHOUT_EXTRAS = f"""
import runpy, sys
sys.modules.update(dict.fromkeys({EXTRAS!r}))
program, *sys.argv[1:] = sys.argv[1:]
runpy.run_module(program, run_name="__main__", alter_sys=True)
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT_EXTRAS, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)


@pytest.mark.once
@pytest.mark.parametrize("program", PROGRAMS)
def test_help_needs_no_extra(program: str) -> None:
    done = run(f"examples.{program}", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: ") and "--help" in done.stdout


def test_a_late_module_is_imported_at_its_first_use_and_others_errors_come_through() -> None:
    assert Late("os.path").basename("a/b") == "b"
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = Late("os").no_such_name
    with pytest.raises(SystemExit, match=r"needs no_such_package: pip install"):
        _ = Late("no_such_package.module").name


def test_the_demo_ends_with_a_comparison_in_a_line() -> None:
    fast = Summary(bytes=80_000_000, sent=40_000_000, seconds=2.0, cpu_seconds=1.0, peak_rss=100)
    slow = Summary(bytes=80_000_000, sent=0, seconds=4.0, cpu_seconds=2.0, peak_rss=400)
    assert in_short(fast) == "40.0 MB/s, 2.0 x smaller, 2.00 s"
    assert in_short(slow) == "20.0 MB/s, 4.00 s"
    assert result({"dhagas": fast, "threads": slow}) == (
        "dhagas against threads: 2 x the speed, 0.5 x the CPU, 0.25 x the memory"
    )
