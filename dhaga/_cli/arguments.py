"""Command lines: a parser that prints a short help and suggests similar names, and validators for arguments.

A validator is the ``type`` of an argument: it returns the value or raises ArgumentTypeError.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

from .._kernel.context_manager import contextmanager
from .._kernel.faces.similar_names import most_similar

WIDEST_OPTION = 30
"""Width of the options' column in a help text. The explanation of a longer option begins on the next line."""


@contextmanager
def extra(command: str) -> Iterator[None]:
    """Run a block of imports that need an extra of Dhaga. Raises: SystemExit that names the extra if a module is
    missing.

    The imports are not at the top of a module, so that ``--help`` works without the extra.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in ("", "dhaga"):
            raise
        raise SystemExit(f"python -m dhaga {command} needs {missing}: pip install 'dhaga[{command}]'") from None


class CommandLine(argparse.ArgumentParser):
    """The parser of ``python -m dhaga NAME``. Its help explains every option in 80 columns.

    The usage is one line, because a list of the options follows. The description explains the operand.
    ``foreign``: options of similar commands of other packages, each with the option to suggest instead.
    """

    def __init__(
        self, name: str, operands: str, description: str, epilog: str = "", foreign: Mapping[str, str] | None = None
    ) -> None:
        program = f"python -m dhaga {name}"
        super().__init__(
            prog=program,
            usage=f"{program} [OPTION …] {operands}",
            description=description,
            epilog=epilog or None,
            formatter_class=partial(argparse.HelpFormatter, max_help_position=WIDEST_OPTION),
            add_help=False,
        )
        self.add_argument("-h", "--help", action="help", help=argparse.SUPPRESS)
        self.foreign: Mapping[str, str] = foreign or {}

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> Any:
        """Parse arguments, but first report an unknown option, because the option's value could be parsed as an
        operand.
        """
        options = [option for option in self._option_string_actions if option.startswith("--")]
        for word in args or ():
            name = word.partition("=")[0]
            if name == "--":
                break
            unknown = name.startswith("--") and not any(option.startswith(name) for option in options)
            if unknown or name in self.foreign:
                counterpart = self.foreign.get(name, name)
                self.error(f"there is no option {name}{did_you_mean(counterpart, options)}")
        return super().parse_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Exit with the message and a hint that ``--help`` lists the options."""
        self.exit(2, f"{self.prog}: {message}\n{self.prog} --help lists the options\n")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a question that names the most similar known word, or "" if no word is similar."""
    bare = {each.lstrip("-"): each for each in known}  # all options would be similar by their dashes
    similar = most_similar(word.lstrip("-"), bare)
    return "" if similar is None else f": did you mean {bare[similar]}?"


def process_id(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 2**31:
        raise argparse.ArgumentTypeError(f"{text!r} is not a process id")
    return int(text)


def count(text: str) -> int:
    """Return a whole number of 1 or more."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


def seconds(text: str) -> float:
    """Return a number of seconds, 0 or more."""
    value = float_or_nan(text)
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, 0 or more")
    return value


def positive_seconds(text: str) -> float:
    """Return a finite number of seconds above 0."""
    value = float_or_nan(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return value


def seconds_between(lowest: float, highest: float) -> Callable[[str], float]:
    """Return a validator that accepts seconds between these bounds, both included."""

    def validate(text: str) -> float:
        value = float_or_nan(text)
        if not lowest <= value <= highest:
            raise argparse.ArgumentTypeError(f"{text!r} is not between {lowest:g} and {highest:g} seconds")
        return value

    return validate


def float_or_nan(text: str) -> float:
    """Return the number, or NaN if the text is not a number. NaN fails each comparison of a validator."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def or_none(validator: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a validator that returns None for the word ``none``, and otherwise calls ``validator``."""

    def validate(text: str) -> Any:
        return None if text == "none" else validator(text)

    return validate
