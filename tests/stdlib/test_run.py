"""The runner of CPython's tests (``python -m tests.stdlib``): what hangs, dies and gets lost in one is told by name."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import pytest

from tests.stdlib.expectations import Loss, Set, known_losses, lost_by_gevent, read
from tests.stdlib.run import Limits, ModuleRun
from tests.stdlib.trial import Trial

pytestmark = pytest.mark.once
pytest.importorskip("test.support", reason="this interpreter ships without the package `test`")

SAMPLE = """
    import os, signal, threading, time, unittest
    import dhaga.monkey

    class Mixed(unittest.TestCase):
        def test_1_passes(self):
            pass

        def test_2_hangs(self):
            signal.pause()

        def test_3_dies(self):
            os._exit(3)

        def test_4_leaves_a_child(self):
            os.fork()

        def test_5_fails(self):
            self.assertTrue(os.environ.get("UNHEARD_OF"), "five")

        @unittest.skip("six")
        def test_6_is_skipped(self):
            pass

        def test_7_is_interrupted(self):
            raise KeyboardInterrupt

    class Parts(unittest.TestCase):
        def test_fails_in_part(self):
            for part in (1, 2):
                with self.subTest(part=part):
                    self.assertEqual(part, 1)

    class Unready(unittest.TestCase):
        @classmethod
        def setUpClass(cls):
            raise OSError("not ready")

        def test_is_not_begun(self):
            pass

    class Deadly(unittest.TestCase):
        @classmethod
        def setUpClass(cls):
            os._exit(4)

        def test_is_not_begun(self):
            pass

    class Patched(unittest.TestCase):
        def test_fails_when_patched(self):
            self.assertFalse(dhaga.monkey.is_patched())

        def test_fails_when_bare(self):
            self.assertTrue(dhaga.monkey.is_patched())

        def test_is_skipped_when_patched(self):
            if dhaga.monkey.is_patched():
                self.skipTest("patched")

    if not dhaga.monkey.is_patched():
        class Bare(unittest.TestCase):
            def test_is_there(self):
                pass
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of tests of all kinds, by its name."""
    (tmp_path / "sample.py").write_text(textwrap.dedent(SAMPLE))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *os.environ.get("PYTHONPATH", "").split()]))
    return "sample"


@pytest.mark.long("one test of the sample hangs, for a second")
def test_each_test_comes_to_its_own_outcome_whatever_the_others_do(module: str) -> None:
    records = ModuleRun(module, True, Limits(1), left_out="Patched|Bare").run()
    assert {name.removeprefix("sample."): record.outcome for name, record in records.items()} == {
        "Mixed.test_1_passes": "passed",
        "Mixed.test_2_hangs": "hung",
        "Mixed.test_3_dies": "died",
        "Mixed.test_4_leaves_a_child": "passed",
        "Mixed.test_5_fails": "failed",
        "Mixed.test_6_is_skipped": "skipped",
        "Mixed.test_7_is_interrupted": "failed",
        "Parts.test_fails_in_part": "failed",
        "Unready.test_is_not_begun": "failed",
        "Deadly.test_is_not_begun": "died",
    }
    assert "in test_2_hangs" in records["sample.Mixed.test_2_hangs"].text
    assert "exited with 3" in records["sample.Mixed.test_3_dies"].text
    assert "five" in records["sample.Mixed.test_5_fails"].text
    assert "not ready" in records["sample.Unready.test_is_not_begun"].text


@pytest.mark.parametrize("known", [{}, {"sample.Patched.test_fails_when_patched": Loss("a reason")}])
def test_what_is_worse_under_the_patch_counts_unless_it_is_known(module: str, known: dict[str, Loss]) -> None:
    trial = Trial(module, Set((module,), ("Mixed|Parts|Unready|Deadly",), Limits(5)), known).run()
    worse = {"Patched.test_fails_when_patched", "Patched.test_is_skipped_when_patched", "Bare.test_is_there"}
    assert {*trial.worse} == {f"sample.{test}" for test in worse}
    assert {*trial.unknown_failures()} == {*trial.worse} - {*known}
    assert trial.counts()["failed"] == 3 - len(known)
    assert trial.counts()["known to fail"] == len(known)


def test_what_is_known_to_hang_is_not_tried(module: str) -> None:
    known = {"sample.Mixed.test_2_hangs": Loss("a reason", hangs=True)}
    left_out = ("Mixed.test_[3-7]|Parts|Unready|Deadly|Bare|Patched",)
    trial = Trial(module, Set((module,), left_out, Limits(30)), known).run()
    assert (trial.counts()["passed"], trial.counts()["known to fail"], trial.counts()["failed"]) == (1, 1, 0)
    assert trial.seconds < 20


def test_a_known_failure_that_passes_counts_unless_it_is_flaky(module: str) -> None:
    known = {
        "sample.Patched.test_fails_when_bare": Loss("a reason"),
        "sample.Patched.test_is_skipped_when_patched": Loss("a reason", flaky=True),
    }
    left_out = ("Mixed|Parts|Unready|Deadly|Bare|test_fails_when_patched",)
    trial = Trial(module, Set((module,), left_out, Limits(5)), known).run()
    assert trial.passing_losses() == ["sample.Patched.test_fails_when_bare"]
    assert not trial.unknown_failures()


def test_the_data_name_each_test_once_a_python_and_a_reason_for_each() -> None:
    for python in ("3.11", "3.12", "3.13", "3.14", "3.15"):
        entries = [entry for entry in read("known.toml").get("loss", []) if python in entry.get("pythons", [python])]
        names = [test for entry in entries for test in entry["tests"]]
        assert len(names) == len(known_losses(python)) == len(set(names))
        assert all(
            entry["reason"] and {*entry} <= {"reason", "tests", "pythons", "flaky", "hangs"} for entry in entries
        )
    modules = read("sets.toml")["modules"]
    losses = lost_by_gevent("3.11")
    assert losses is not None and len(losses) == 153
    assert {test.partition(".")[0] for test in {*losses, *names}} <= {*modules}
    assert lost_by_gevent("3.10") is None


def test_of_what_gevent_loses_half_passes_at_least_and_little_else_fails() -> None:
    known, losses = {*known_losses("3.11")}, lost_by_gevent("3.11") or set()
    assert 2 * len(known & losses) <= len(losses)
    not_run = ("test_concurrent_futures.", "test_io.", "test_sqlite3.")  # with gevent
    assert {test for test in known - losses if not test.startswith(not_run)} == {
        "test_threading.ThreadTests.test_foreign_thread",
        "test_threading.ThreadTests.test_limbo_cleanup",
    }
