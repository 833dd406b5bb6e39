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


@pytest.fixture
def peer(tmp_path: Path) -> Peer:
    """A peer whose tests are in a folder of this test."""
    (package := tmp_path / "sample_tests").mkdir()
    (package / "__init__.py").touch()
    (package / "mixed.py").write_text(textwrap.dedent(SAMPLE))
    (tmp_path / "bridge.py").write_text("import sys\nsys.on_dhaga = True\n")
    return Peer(
        *("sample", "sample==1", "sample_tests", "sdist", ("mixed",), 0.9, {}, Limits(2), {}, tmp_path / "bridge.py")
    )


def trial_of(peer: Peer, **known: Loss) -> PeerTrial:
    peer = dataclasses.replace(peer, known={f"mixed.Mixed.{test}": loss for test, loss in known.items()})
    return PeerTrial("mixed", peer, Path(sys.executable), peer.bridge.parent).run()


def test_what_passes_with_the_peer_and_not_here_fails(peer: Peer) -> None:
    trial = trial_of(peer)
    assert {test: record.outcome for test, record in trial.unknown.items()} == {
        "mixed.Mixed.test_fails_here": "failed",
        "mixed.Mixed.test_is_skipped_here": "skipped",
        "mixed.Mixed.test_hangs_here": "hung",
        "mixed.Missing.test_is_not_there": "lost",
    }
    assert share([trial]) == "2 of 6 passed, 33.3%"
    assert "mixed.test_is_a_function" in trial.baseline and "mixed.test_takes" not in trial.baseline


def test_a_known_failure_is_none_and_one_that_passes_is(peer: Peer) -> None:
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


def test_a_baseline_that_is_given_is_not_measured_again(peer: Peer) -> None:
    trial = PeerTrial("mixed", peer, Path(sys.executable), peer.bridge.parent).run(
        ["mixed.Mixed.test_fails_with_the_peer"]
    )
    assert (trial.passed, trial.failing) == (1, {})


def test_a_test_left_out_is_asked_of_neither(peer: Peer) -> None:
    peer = dataclasses.replace(peer, left_out={"mixed.Mixed.test_fails_here": Loss("of another time")})
    trial = PeerTrial("mixed", peer, Path(sys.executable), peer.bridge.parent).run()
    assert "mixed.Mixed.test_fails_here" not in {*trial.baseline, *trial.failing}
    assert share([trial]) == "2 of 5 passed, 40.0%"


@pytest.mark.parametrize("name", NAMES)
def test_the_data_name_each_test_once_and_a_reason_for_each(name: str) -> None:
    import tomllib

    data = tomllib.loads((Path(__file__).parent / f"{name}.toml").read_text())
    peer = Peer.named(name)
    entries = [*data.get("loss", []), *data.get("left_out", [])]
    tests = [test for entry in entries for test in entry["tests"]]
    assert len(tests) == len(set(tests)) == len(peer.known) + len(peer.left_out)
    assert all(test.startswith(tuple(f"{module}." for module in data["modules"])) for test in tests)
    assert all(entry["reason"] and {*entry} <= {"reason", "tests", "flaky", "hangs"} for entry in entries)
    assert peer.bridge.exists()
    assert peer.bridge.stem == "patch_bridge" or importlib.util.find_spec(f"dhaga.compat.{peer.imports or name}")
