"""Where the sockets of inspectors are, and who may use them."""

from __future__ import annotations

import json
import os
import socket
import stat
from pathlib import Path

import pytest

from dhaga.debug import inspect
from dhaga.debug._remote import inspector, socket_path
from dhaga.debug._remote.client import InspectorClient


def test_the_socket_is_for_the_user_alone_and_goes_with_the_inspector(folder: Path) -> None:
    with inspect() as mine:
        assert mine is inspect()
        assert mine.path == folder / f"dhaga-{os.getpid()}.sock"
        modes = [stat.S_IMODE(path.stat().st_mode) for path in (folder, mine.path)]
        assert modes == [0o700, 0o600]
    assert not mine.path.exists()
    mine.stop()


@pytest.mark.parametrize("kind", ["open", "link"])
def test_a_folder_that_others_have_access_to_is_refused(folder: Path, tmp_path: Path, kind: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    if kind == "link":
        folder.symlink_to(elsewhere)
    else:
        elsewhere.rename(folder).chmod(0o711)
    with pytest.raises(
        PermissionError, match=r"only user [0-9]+ can enter \(mode 0700\):\nremove it, or set XDG_RUNTIME_DIR"
    ):
        inspect()


def test_without_a_runtime_folder_the_one_for_temporary_files_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "none"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with inspect() as mine, InspectorClient(os.getpid()) as line:
        assert mine.path.parent == tmp_path / f"dhaga-{os.geteuid()}"
        assert line.ask("table")["pid"] == os.getpid()


def test_sockets_of_processes_that_were_killed_are_removed(folder: Path) -> None:
    with inspect() as mine:
        dead, own, other = folder / "dhaga-4194999.sock", mine.path, folder / "dhaga-notes.sock"
        with socket.socket(socket.AF_UNIX) as once:
            once.bind(str(dead))
        other.touch()
        socket_path.sweep(folder)
        assert sorted(folder.iterdir()) == sorted([own, other])


def test_a_path_too_long_for_a_socket_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ("x" * 100)).mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / ("x" * 100)))
    with pytest.raises(OSError, match="set XDG_RUNTIME_DIR to another directory"):
        inspect()
    assert inspector.inspector is None


def test_somebody_else_gets_no_answer(line: InspectorClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_path, "peer", lambda guest: (1, os.geteuid() + 1, 1))
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(str(inspect().path))
        with stranger.makefile() as lines:
            assert "only its own user and root" in json.loads(lines.readline())["error"]
            assert lines.readline() == ""
