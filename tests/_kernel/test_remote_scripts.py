"""Scripts of ``sys.remote_exec``. What they may wait for is in tests/scenarios/test_interpreter_calls.py."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest

from dhaga._kernel.process import remote_scripts
from tests.kit.scripts import run

_io: Any = sys.modules["_io"]


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "script.py"
    path.write_text("print('ran')")
    return str(path)


def content_of(path: str) -> bytes:
    """Return the content of a file that is opened as CPython opens a script."""
    with io.open_code(path) as file:
        return file.read()


def test_another_file_is_not_emptied(script: str, tmp_path: Path) -> None:
    former, other = _io.open, tmp_path / "other.py"
    other.write_text("pass")
    remote_scripts.redirect(script, lambda call: pytest.fail("it was redirected"))
    assert content_of(str(other)) == b"pass"
    remote_scripts.on_audit("open", ())
    assert _io.open is former


def test_only_the_next_open_of_the_script_gets_an_empty_file(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    calls: list[Any] = []
    former = _io.open
    remote_scripts.redirect(script, calls.append)
    assert content_of(script) == b""
    assert _io.open is former
    assert content_of(script) == b"print('ran')"
    calls.pop()()
    assert capsys.readouterr().out == "ran\n"


def test_a_script_that_is_opened_in_another_way_stays(script: str) -> None:
    former = _io.open
    remote_scripts.redirect(script, lambda call: pytest.fail("it was redirected"))
    remote_scripts.on_audit("import", ())
    assert _io.open is former
    assert content_of(script) == b"print('ran')"


def test_an_error_of_a_script_is_logged_and_the_program_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    remote_scripts.run_script("gone.py", b"1 / 0")
    remote_scripts.run_script("gone.py", b"1 +")
    assert [record.getMessage() for record in caplog.records] == ["the debugger's script gone.py failed"] * 2
    caplog.clear()


@pytest.mark.skipif(sys.version_info < (3, 14), reason="came with Python 3.14")
def test_without_remote_debugging_there_is_no_audit_hook() -> None:
    code = """
        import dhaga
        dhaga.spawn(int).join()
        from dhaga._kernel.process import remote_scripts
        print(remote_scripts.listening)
    """
    assert run(code, "-X", "disable-remote-debug").lines == ["[]"]
    assert run(code).lines == ["[True]"]
