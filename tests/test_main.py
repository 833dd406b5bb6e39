"""``python -m dhaga``: its usage and its commands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dhaga import __main__ as command
from tests.kit.scripts import PATIENCE, ROOT, prints

# ---- what cannot be served


@pytest.mark.once
def test_without_its_packages_the_command_names_the_extra() -> None:
    code = """
        import sys
        sys.modules["httptools"] = None
        sys.stderr = sys.stdout
        from dhaga.__main__ import main
        try:
            main(["serve", "module:app"])
        except SystemExit as end:
            print(end)
    """
    assert prints(code) == ["python -m dhaga serve needs httptools: pip install 'dhaga[serve]'"]


# ---- the command line


def test_without_a_command_the_usage_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([]) == command.main(["--help"]) == 0
    assert capsys.readouterr().out == 2 * command.USAGE
    assert "serve" in command.USAGE


@pytest.mark.parametrize(
    ("arguments", "end"),
    [
        (["sevre"], "and there is no command 'sevre': did you mean serve?"),
        (["program.yp"], "and there is no command 'program.yp'"),
        (["--vresion"], "there is no option --vresion: did you mean --version?"),
        (["-k"], "there is no option -k"),
        (["-u", "program.py"], "-u is an option of Python, and stands before -m: python -u -m dhaga …"),
        (["-Xdev", "program.py"], "-Xdev is an option of Python, and stands before -m: python -Xdev -m dhaga …"),
    ],
)
def test_an_unknown_word_is_an_error_that_names_the_most_similar_one(
    capsys: pytest.CaptureFixture[str], arguments: list[str], end: str
) -> None:
    assert command.main(arguments) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("python -m dhaga: ") and first.endswith(end)
    assert second == "python -m dhaga --help lists the commands"


def test_the_usage_fits_a_terminal() -> None:
    lines = command.USAGE.splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 80


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["serve", "--help"], ["migrate", "."]])
def test_a_pager_may_be_quit(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("import gevent\n")
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as pipe:
        told = subprocess.run(
            [sys.executable, "-m", "dhaga", *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=pipe,
            stderr=subprocess.PIPE,
            timeout=PATIENCE,
        )
    assert told.stderr == b""
