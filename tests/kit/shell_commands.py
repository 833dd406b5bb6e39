"""The commands of a shell text, and checks of a command that do not run it."""

from __future__ import annotations

import contextlib
import io
import os
import pkgutil
import re
import shlex
from collections.abc import Iterator
from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from dhaga import compat
from dhaga.__main__ import COMMANDS, OPTIONS, split_options

ROOT = Path(__file__).parent.parent.parent
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = re.findall(r"^([a-z%-][\w%.-]*)(?: [\w%. -]*)?:(?!=)", MAKEFILE, re.MULTILINE)
ASSIGNED = re.compile(r"([A-Z_]+)=")
OUR_NAME = re.compile(r"dhaga(?:\.\w+)+(?::\w+)?")
SEPARATORS = re.compile(r"[;&|()<>]+")
STAND_INS = {"PID": "1", "$!": "1", "fd://3": ":8000"}
"""Placeholders on pages for values of the reader's machine, each with a value that is valid here."""


class NoProgram(Exception):
    """Raised for a wrong command line. The class in the module that runs programs would need more imports."""


def commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each simple command, also of those in ``$(…)``. A redirection's target counts as a command."""
    for line in text.replace("\\\n", " ").splitlines():
        for inner in re.findall(r"\$\(([^()]*)\)", line):
            yield from commands(inner)
        words = shlex.shlex(re.sub(r"\$\([^()]*\)", "1", line), posix=True, punctuation_chars=True)
        words.whitespace_split = True
        command: list[str] = []
        for word in words:
            if SEPARATORS.fullmatch(word):
                if command:
                    yield command
                command = []
            else:
                command.append(word)
        if command:
            yield command


def check_command(words: list[str]) -> None:
    """Check a command of ours. Raises: AssertionError, which names the command."""
    while words and ASSIGNED.match(words[0]):
        words = words[1:]
    for word in words:
        for name in OUR_NAME.findall(word):
            pkgutil.resolve_name(name)
    if words[:1] == ["make"]:
        check_make(words[1:])
    elif is_python(words):
        check_module(words[2], words[3:])
    elif words[:1] == ["gunicorn"]:
        check_gunicorn(words[1:])


def is_python(words: list[str]) -> bool:
    """Return whether a command is ``python -m`` with a module's name."""
    return len(words) > 2 and os.path.basename(words[0]) == "python" and words[1] == "-m"


def check_make(words: list[str]) -> None:
    """Check that the Makefile has the targets, and reads the variables."""
    for word in words:
        if variable := ASSIGNED.match(word):
            assert f"$({variable[1]})" in MAKEFILE, f"make {word}: the Makefile does not read {variable[1]}"
        elif not word.startswith("-"):
            assert is_target(word), f"make {word}: there is no such target"


def is_target(name: str) -> bool:
    return any(fnmatch(name, target.replace("%", "?*")) for target in TARGETS)


def check_module(module: str, arguments: list[str]) -> None:
    if module == "dhaga":
        check_dhaga(arguments)
    elif module == "gunicorn":
        check_gunicorn(arguments)
    elif module.partition(".")[0] in ("benchmarks", "dhaga", "examples", "tests"):
        assert find_spec(module), f"python -m {module}: there is no such module"


def check_gunicorn(arguments: list[str]) -> None:
    """Parse the options with gunicorn's own parser, if gunicorn is installed."""
    with contextlib.suppress(ModuleNotFoundError):
        from gunicorn.config import Config

        parsed(Config().parser(), arguments)


# ---- python -m dhaga


def check_dhaga(arguments: list[str]) -> None:
    """Parse arguments as ``python -m dhaga`` does. If they run a program, check only the program's name."""
    first, *rest = arguments = [STAND_INS.get(word, word) for word in arguments]
    if first in COMMANDS:
        parse_command(first, rest)
    elif first not in ("-h", "--help", "-V", "--version"):
        run: Any = SimpleNamespace(compat=compat, NoProgram=NoProgram, Options=lambda *_: None)
        if arguments[:2] == ["--as", "NAME"]:
            arguments[1] = "gevent"
        _, (program, *rest) = split_options(run, arguments)
        if program in ("-m", "-c"):
            assert rest, f"{program} of nothing"
            if program == "-m" and rest[0] not in ("MODULE", "module"):
                check_module(rest[0], rest[1:])
        else:
            assert program in ("-", "SCRIPT", "PROGRAM", "…") or program.endswith(".py"), (
                f"neither a command nor a file: {program}"
            )


def parser_of(command: str) -> Any:
    """Return the parser of a command."""
    module = COMMANDS[command][0]
    return pkgutil.resolve_name(f"{module}:command_line")()


def parse_command(command: str, arguments: list[str]) -> None:
    parser = parser_of(command)
    if command == "simulate":
        from dhaga._cli.simulate import split

        arguments, program = split(parser, arguments)
        assert program, "simulate of nothing"
    parsed(parser, arguments)


def parsed(parser: Any, arguments: list[str]) -> None:
    """Parse arguments. Raises: AssertionError with the parser's output."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            parser.parse_args(arguments)
    except SystemExit as error:
        assert not error.code, said.getvalue()


def check_mentioned(text: str) -> None:
    """Check the options of a command in a sentence, because operands are often left out there."""
    for words in commands(text):
        if is_python(words) and words[2] == "dhaga" and len(words) > 3:
            check_mentioned_dhaga(words[3:])
        elif words[:1] == ["make"]:
            check_make([word for word in words[1:] if word != "…"])


def check_mentioned_dhaga(words: list[str]) -> None:
    options = [word.partition("=")[0] for word in words if word.startswith("--")]
    if words[0] in COMMANDS:
        known = set(parser_of(words[0])._option_string_actions)
        assert set(options) <= known, f"{words[0]} has no {set(options) - known}"
    elif words[0].startswith("--"):
        assert words[0].partition("=")[0] in OPTIONS, f"python -m dhaga has no {words[0]}"
    else:
        check_dhaga(words)
