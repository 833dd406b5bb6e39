"""The command lines of the examples: each explains itself, also where the packages of the extra are not installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from examples._late import Late
from examples.backup.demo import differences, in_short, result
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


@pytest.mark.parametrize(
    ("rtt", "few_seconds", "said"),
    [
        (
            "50ms",
            4.0,
            "With a round trip of 50ms, dhagas were 2.0 x as fast as few, because each file waits for the line",
        ),
        ("50ms", 2.1, "dhagas were about as fast as few, because the processors and the disk, not the line, were the"),
        ("50ms", 1.0, "dhagas were 0.5 x as fast as few, because the processors and the disk, not the line, were the"),
        ("0", 4.0, "Without a round trip, dhagas were 2.0 x as fast as few, because there is nothing to wait for"),
    ],
)
def test_the_demo_ends_with_a_sentence_that_says_what_was_seen_and_why(rtt: str, few_seconds: float, said: str) -> None:
    one = Summary(seconds=2.0, cpu_seconds=1.0, peak_rss=100, workers=128)
    few = Summary(seconds=few_seconds, cpu_seconds=1.0, peak_rss=100, workers=32)
    many = Summary(seconds=2.0, cpu_seconds=1.5, peak_rss=200, workers=128)
    text = result({"dhagas": one, "few": few, "many": many}, rtt)
    assert said in text
    assert text.endswith("about as fast as many, which used 1.5 x their CPU time and 2 x their memory.")


def test_the_demo_finds_each_difference_and_leaves_out_what_was_excluded(tmp_path: Path) -> None:
    trees = [tmp_path / "one", tmp_path / "other"]
    for tree in trees:
        (tree / "same").mkdir(parents=True)
        (tree / "same" / "file").write_text("same")
        (tree / "file").write_text("same")
        for path in (tree / "same" / "file", tree / "same", tree / "file"):
            os.utime(path, (1, 1))
    (trees[0] / "__pycache__").mkdir()
    os.utime(trees[0], (1, 1))
    assert list(differences(trees[0], trees[1], ["__py*__"])) == []
    assert list(differences(*trees)) == ["__pycache__"]
    (trees[1] / "file").write_text("other")
    os.utime(trees[1] / "file", (1, 1))
    assert list(differences(trees[0], trees[1], ["__py*__"])) == ["file"]


def test_the_demo_says_a_rate_and_how_much_smaller_the_bytes_became() -> None:
    fast = Summary(bytes=80_000_000, sent=40_000_000, seconds=2.0, cpu_seconds=1.0, peak_rss=100)
    slow = Summary(bytes=80_000_000, sent=0, seconds=4.0, cpu_seconds=2.0, peak_rss=400)
    assert in_short(fast) == "40.0 MB/s, 2.0 x smaller, 2.00 s"
    assert in_short(slow) == "20.0 MB/s, 4.00 s"
