"""The runner of peers' own tests (``python -m tests.peers``): what passes with the peer is what counts on Dhaga."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
import textwrap
from pathlib import Path

import pytest

from tests.peers.__main__ import share
from tests.peers.peer import NAMES, Loss, Peer
from tests.peers.run import PeerTrial
from tests.stdlib.run import Limits

pytestmark = pytest.mark.once

SAMPLE = """
    import signal, sys, unittest

    on_dhaga = hasattr(sys, "on_dhaga")

    class Mixed(unittest.TestCase):
        def test_passes(self):
            pass

        def test_fails_with_the_peer(self):
            self.assertTrue(on_dhaga)

        def test_fails_here(self):
            self.assertFalse(on_dhaga)

        def test_is_skipped_here(self):
            if on_dhaga:
                self.skipTest("here")

        def test_hangs_here(self):
            if on_dhaga:
                signal.pause()

    if not on_dhaga:
        class Missing(unittest.TestCase):
            def test_is_not_there(self):
                pass

    def test_is_a_function():
        assert True

    def test_takes(fixture):
        assert False
"""


@dataclasses.dataclass(frozen=True)
class Sample(Peer):
    """A peer whose tests are in a folder of this test."""

    folder: Path

    @property
    def bridge(self) -> Path:
        return self.folder / "bridge.py"


@pytest.fixture
def peer(tmp_path: Path) -> Sample:
    (package := tmp_path / "sample_tests").mkdir()
    (package / "__init__.py").touch()
    (package / "mixed.py").write_text(textwrap.dedent(SAMPLE))
    (tmp_path / "bridge.py").write_text("import sys\nsys.on_dhaga = True\n")
    return Sample("sample", "sample==1", "sample_tests", True, ("mixed",), 0.9, {}, Limits(2), {}, folder=tmp_path)


def trial_of(peer: Sample, **known: Loss) -> PeerTrial:
    peer = dataclasses.replace(peer, known={f"mixed.Mixed.{test}": loss for test, loss in known.items()})
    return PeerTrial("mixed", peer, Path(sys.executable), peer.folder).run()


def test_what_passes_with_the_peer_and_not_here_fails(peer: Sample) -> None:
    trial = trial_of(peer)
    assert {test: record.outcome for test, record in trial.unknown.items()} == {
        "mixed.Mixed.test_fails_here": "failed",
        "mixed.Mixed.test_is_skipped_here": "skipped",
        "mixed.Mixed.test_hangs_here": "hung",
        "mixed.Missing.test_is_not_there": "lost",
    }
    assert share([trial]) == "2 of 6 passed, 33.3%"
    assert "mixed.test_is_a_function" in trial.baseline and "mixed.test_takes" not in trial.baseline


def test_a_known_failure_is_none_and_one_that_passes_is(peer: Sample) -> None:
    trial = trial_of(
        peer,
        test_fails_here=Loss("known"),
        test_passes=Loss("known"),
        test_is_skipped_here=Loss("known", flaky=True),
        test_hangs_here=Loss("known", hangs=True),
    )
    assert [*trial.unknown] == ["mixed.Missing.test_is_not_there"]
    assert trial.passing_losses == ["mixed.Mixed.test_passes"]
    assert trial.failing["mixed.Mixed.test_hangs_here"].text == "known"


def test_a_baseline_that_is_given_is_not_measured_again(peer: Sample) -> None:
    trial = PeerTrial("mixed", peer, Path(sys.executable), peer.folder).run(["mixed.Mixed.test_fails_with_the_peer"])
    assert (trial.passed, trial.failing) == (1, {})


@pytest.mark.parametrize("name", [name for name in NAMES if (Path(__file__).parent / f"{name}.toml").exists()])
def test_the_data_name_each_test_once_and_a_reason_for_each(name: str) -> None:
    import tomllib

    data = tomllib.loads((Path(__file__).parent / f"{name}.toml").read_text())
    tests = [test for entry in data.get("loss", []) for test in entry["tests"]]
    assert len(tests) == len(set(tests)) == len(Peer.named(name).known)
    assert {test.partition(".")[0] for test in tests} <= set(data["modules"])
    assert all(entry["reason"] and {*entry} <= {"reason", "tests", "flaky", "hangs"} for entry in data.get("loss", []))
    assert Peer.named(name).bridge.exists() and importlib.util.find_spec(f"dhaga.compat.{name}")
