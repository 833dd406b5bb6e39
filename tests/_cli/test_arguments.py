"""``dhaga._cli.arguments``: what validators of command line arguments take and refuse."""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentTypeError
from collections.abc import Callable
from importlib import import_module

import pytest

from dhaga.__main__ import COMMANDS
from dhaga._cli.arguments import CommandLine, count, did_you_mean, or_none, process_id, seconds, seconds_between
from tests.kit.scripts import prints


@pytest.mark.parametrize(
    ("validate", "text", "value"),
    [
        (process_id, "1", 1),
        (count, "12", 12),
        (seconds, "0", 0.0),
        (seconds, "inf", float("inf")),
        (seconds_between(0.05, 3600), "0.05", 0.05),
        (or_none(seconds), "none", None),
        (or_none(seconds), "1.5", 1.5),
    ],
)
def test_what_is_taken(validate: Callable[[str], object], text: str, value: object) -> None:
    assert validate(text) == value


@pytest.mark.parametrize(
    ("validate", "text", "error"),
    [
        (process_id, "0", "'0' is not a process id"),
        (process_id, str(2**31), "is not a process id"),
        (count, "0", "'0' is not a whole number from 1"),
        (count, "-1", "'-1' is not a whole number from 1"),
        (seconds, "-0.1", "'-0.1' is not a number of seconds, 0 or more"),
        (seconds, "nan", "'nan' is not a number of seconds, 0 or more"),
        (seconds, "soon", "'soon' is not a number of seconds, 0 or more"),
        (seconds_between(0.05, 3600), "3601", "'3601' is not between 0.05 and 3600 seconds"),
        (seconds_between(0.05, 3600), "often", "'often' is not between 0.05 and 3600 seconds"),
        (or_none(count), "None", "'None' is not a whole number from 1"),
    ],
)
def test_what_is_refused(validate: Callable[[str], object], text: str, error: str) -> None:
    with pytest.raises(ArgumentTypeError, match=error):
        validate(text)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--wrokers", "2", "x:app"], "python -m dhaga x: there is no option --wrokers: did you mean --workers?"),
        (["--nothing=1", "x"], "python -m dhaga x: there is no option --nothing"),
        (["--markets", "x"], "python -m dhaga x: there is no option --markets"),
        (["-w", "2", "x"], "python -m dhaga x: there is no option -w: did you mean --workers?"),
        (["--crew=2", "x"], "python -m dhaga x: there is no option --crew: did you mean --workers?"),
        (["--workers", "0", "x"], "argument --workers: '0' is not a whole number from 1"),
        (["--workers"], "argument --workers: expected one argument"),
    ],
)
def test_a_misspelt_option_is_named_with_the_most_similar_one(
    capsys: pytest.CaptureFixture[str], words: list[str], error: str
) -> None:
    with pytest.raises(SystemExit) as end:
        parser().parse_args(words)
    assert end.value.code == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith(error)
    assert second == "python -m dhaga x --help lists the options"


def test_what_follows_a_double_dash_and_shortened_options_are_taken() -> None:
    assert parser().parse_args(["--", "--wrokers"]).operand == "--wrokers"
    assert parser().parse_args(["--work", "3", "x"]).workers == 3


def parser() -> CommandLine:
    made = CommandLine("x", "OPERAND", "Do something.", foreign={"-w": "--workers", "--crew": "--workers"})
    made.add_argument("operand")
    made.add_argument("--workers", type=count)
    return made


def test_a_word_like_no_other_suggests_nothing() -> None:
    assert did_you_mean("zzz", ["serve"]) == ""


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_the_help_of_a_command_gives_the_meaning_of_every_option(command: str) -> None:
    made = import_module(COMMANDS[command][0]).command_line()
    options = [action for action in made._actions if action.option_strings and action.dest != "help"]
    assert [action.option_strings for action in options if action.help in (None, "", SUPPRESS)] == []
    text = made.format_help()
    assert [action.option_strings for action in options if action.option_strings[-1] not in text] == []
    assert "http" not in text.replace("HTTPS", "")  # it is read without a network


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_the_help_of_a_command_fits_80_columns_and_needs_no_extra(command: str) -> None:
    code = f"""
        import sys
        for name in "httptools", "rich":
            sys.modules[name] = None
        from dhaga.__main__ import main
        main([{command!r}, "--help"])
    """
    lines = prints(code, COLUMNS="80")
    assert max(map(len, lines)) <= 80
    said = [line for line in lines if line.strip()]
    assert len(said) == len(set(said))
