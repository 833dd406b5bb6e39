"""``python -m dhaga explain``: what it prints, and that the command at the end of an error works."""

from __future__ import annotations

import io
import re
import shlex
import subprocess
import sys

import pytest

from dhaga._cli import explain
from dhaga._kernel import errors

DEADLOCKED = "import dhaga; from dhaga import queue; dhaga.spawn(queue.Queue().get).result()"


def explained(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert explain.main([*words]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("error", [errors.Deadlock, errors.LeftBehind, errors.ParkError, errors.PatchError])
def test_the_command_at_the_end_of_an_error_prints_its_entries(
    error: type[RuntimeError], capsys: pytest.CaptureFixture[str]
) -> None:
    (note,) = error("why").__notes__
    command = re.search(r"python -m dhaga explain (\w+)", note)
    assert command is not None
    text = explained(capsys, command[1])
    assert text.startswith(f"{error.__name__}: ") and "\n  Cause: " in text and "\n  Cure: " in text


def test_a_message_is_explained_with_its_values_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(TypeError) as failed:
        import dhaga

        dhaga.spawn(5)
    text = explained(capsys, str(failed.value))
    assert text.startswith("TypeError: … needs a function to call, not …") and text.count("Cause:") == 1


def test_a_traceback_is_read_from_a_pipe(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    done = subprocess.run([sys.executable, "-c", DEADLOCKED], capture_output=True, text=True, timeout=60, check=False)
    monkeypatch.setattr("sys.stdin", io.StringIO(done.stderr))
    assert explained(capsys, "-").startswith("Deadlock: ")


def test_without_words_the_exceptions_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert {"Deadlock", "ParkError", "RuntimeError"} <= set(explained(capsys).splitlines())


def test_a_link_becomes_the_path_of_its_page(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = explained(capsys, "has patched this program already, and of two patches neither works:")
    assert "From gevent (docs/start/gevent.md)" in text and "](" not in text


def test_what_fits_no_message_ends_with_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain.main(shlex.split("deadlok")) == 1
    said = capsys.readouterr()
    assert said.out == "" and "no message of Dhaga fits 'deadlok'" in said.err
