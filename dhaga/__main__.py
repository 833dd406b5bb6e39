"""The command line: ``python -m dhaga SCRIPT …`` and ``python -m dhaga COMMAND …``, implemented in ``_cli``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from typing import Any

from ._kernel.run.call_outs import calls_out

COMMANDS = {
    "serve": ("dhaga._cli.serve", "serve a WSGI app over HTTP"),
    "dump": ("dhaga._cli.dump", "print the state of every dhaga in a live process"),
    "explain": ("dhaga._cli.explain", "print causes and cures of an exception or a message, offline"),
    "migrate": ("dhaga._cli.migrate.command", "list or rewrite uses of gevent, eventlet and threading"),
    "simulate": ("dhaga._cli.simulate", "run a threaded program by many seeds, to find races"),
    "top": ("dhaga._cli.top", "watch the dhagas of a live process"),
}
"""The module and summary of each command. The module's ``main(arguments)`` returns an exit status."""

USAGE = (
    """\
usage: python -m dhaga SCRIPT …     run a program with its threads as dhagas
       python -m dhaga -m MODULE …  run a module in this way
       python -m dhaga -c CODE …    run code given as a string
       python -m dhaga COMMAND …    run one of the commands below
       python -m dhaga --version    print the versions of Dhaga and what it uses

SCRIPT is a file, a folder or archive with __main__.py, or - (standard input).
Before SCRIPT, -m or -c, --as gevent and --as eventlet let the program import
Dhaga's own package of that name, and --cooperative turns preemption off.
With --real-threads MODULE, the threads of that module stay OS threads.

commands (COMMAND --help lists its options):
"""
    + "".join(f"  {command:8} {what}\n" for command, (_, what) in COMMANDS.items())
    + """\
A file of that name is run as ./serve.
"""
)

OPTIONS_OF_PROGRAMS = ("--as", "--cooperative", "--real-threads")
OPTIONS = ("--help", "--version", *OPTIONS_OF_PROGRAMS)
OPTIONS_OF_PYTHON = "bBdEiIOPqRsSuvWxX"
"""The letters of the interpreter's own options, which ``python -m dhaga`` cannot set for a program."""

MORE = "python -m dhaga --help lists the commands"


@calls_out
def main(arguments: list[str]) -> int:
    """Run a command or a program. Returns: an exit status."""
    first = arguments[0] if arguments else "--help"
    if first in ("-h", "--help"):
        return to_a_pager(partial(tell, lambda: USAGE.rstrip()))
    if first in ("-V", "--version"):
        from ._cli import version

        return to_a_pager(partial(tell, version.text))
    if first in COMMANDS:
        return to_a_pager(partial(run_command, first, arguments[1:]))
    return run_program(arguments)


def suggestion(word: str, known: Iterable[str]) -> str:
    from ._cli.arguments import did_you_mean  # imported late, because running a program needs no argparse

    return did_you_mean(word, known)


def tell(text: Callable[[], str]) -> int:
    print(text())
    return 0


def to_a_pager(command: Callable[[], int]) -> int:
    """Run a command whose output may go to a pipe that its reader closes early, such as ``| head`` or ``| less``."""
    try:
        try:
            return command()
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:  # redirect stdout, so that the flush at exit does not fail
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 2


@calls_out
def run_command(command: str, arguments: list[str]) -> int:
    return import_module(COMMANDS[command][0]).main(arguments)  # type: ignore[no-any-return]


@calls_out
def run_program(arguments: list[str]) -> int:
    from ._cli import run

    try:
        options, arguments = split_options(run, arguments)
        find, rest = what_to_run(run, arguments)
        run.run(find, rest, options)
    except run.NoProgram as error:
        print(f"python -m dhaga: {error}", file=sys.stderr)
        return error.status
    return 0


def split_options(run: Any, arguments: list[str]) -> tuple[Any, list[str]]:
    """Return the options before the program, as ``run.Options``, and the arguments after them. Raises: NoProgram."""
    given: dict[str, list[str]] = {option: [] for option in OPTIONS_OF_PROGRAMS}
    while arguments and arguments[0].partition("=")[0] in given:
        option, equals, value = arguments[0].partition("=")
        arguments = arguments[1:]
        if option == "--cooperative":
            if equals:
                raise run.NoProgram(f"--cooperative takes no value\n{MORE}")
        elif not equals:
            value, arguments = (arguments[0], arguments[1:]) if arguments else ("", [])
        if option == "--as" and value not in run.compat.NAMES:
            raise run.NoProgram(f"--as takes {' or '.join(run.compat.NAMES)}, not {value!r}\n{MORE}")
        if option == "--real-threads" and not all(part.isidentifier() for part in value.split(".")):
            raise run.NoProgram(f"--real-threads takes the name of a module, not {value!r}\n{MORE}")
        given[option].append(value)
    if not arguments:
        raise run.NoProgram(f"a program is expected after the options\n{MORE}")
    return run.Options(given["--as"], bool(given["--cooperative"]), given["--real-threads"]), arguments


def what_to_run(run: Any, arguments: list[str]) -> tuple[Callable[[], Any], list[str]]:
    """Return a function that finds the program, and the program's arguments. Raises: NoProgram."""
    first, *rest = arguments
    if first == "-":
        return run.program_from_stdin, rest
    option = first[:2]
    if option not in ("-m", "-c"):
        if first.startswith("-"):
            if first[1] in OPTIONS_OF_PYTHON:
                raise run.NoProgram(
                    f"{first} is an option of Python, and stands before -m: python {first} -m dhaga …\n{MORE}"
                )
            raise run.NoProgram(f"there is no option {first}{suggestion(first, OPTIONS)}\n{MORE}")
        if not os.path.exists(first):
            raise run.NoProgram(
                f"can't open file {os.path.abspath(first)!r}, and there is no command {first!r}"
                f"{suggestion(first, COMMANDS)}\n{MORE}"
            )
        return partial(run.program_from_file, first), rest
    if first == option and not rest:
        raise run.NoProgram(f"argument expected for the {option} option\n{MORE}")
    what, rest = (first[2:], rest) if first != option else (rest[0], rest[1:])
    return partial(run.program_from_module if option == "-m" else run.program_from_text, what), rest


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
