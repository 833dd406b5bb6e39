"""``python -m dhaga``: its usage and its commands."""

from __future__ import annotations

import pytest

from dhaga import __main__ as command
from tests.kit.scripts import prints

# ---- what cannot be served


@pytest.mark.once
def test_without_its_packages_the_command_names_the_extra() -> None:
    code = """
        import sys
        sys.modules["httptools"] = None
        sys.stderr = sys.stdout
        from dhaga.__main__ import main
        print(main(["serve", "module:app"]))
    """
    assert prints(code) == ["python -m dhaga serve needs httptools: pip install 'dhaga[serve]'", "1"]


# ---- the command line


def test_without_a_command_the_usage_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([]) == command.main(["--help"]) == 0
    assert capsys.readouterr().out == 2 * command.USAGE
    assert "serve" in command.USAGE


def test_an_unknown_command_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["sevre"]) == 2
    assert "there is no command 'sevre'" in capsys.readouterr().err
