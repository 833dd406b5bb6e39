"""``python -m dhaga SCRIPT …`` and ``python -m dhaga COMMAND …``: dispatches to a module of ``_cli``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

COMMANDS = {
    "serve": ("dhaga._cli.serve", "serve a WSGI app over HTTP"),
    "dump": ("dhaga._cli.dump", "print the state of every dhaga in a live process"),
    "migrate": ("dhaga._cli.migrate", "list what a source tree uses of gevent, eventlet and threading, or rewrite it"),
    "top": ("dhaga._cli.top", "watch the dhagas of a live process"),
}
"""The module of each command, whose ``main(arguments)`` returns an exit status. Its needs: ``dhaga[COMMAND]``."""

USAGE = """\
usage: python -m dhaga SCRIPT …     run a program, its threads as dhagas: a file, a folder or an archive; - is stdin
       python -m dhaga -m MODULE …  run a module so
       python -m dhaga -c CODE …    run a text so
       python -m dhaga --as NAME …  run any of these with Dhaga's own gevent or eventlet for NAME; may be repeated
       python -m dhaga --version    print the versions of what it consists of
       python -m dhaga COMMAND …    where COMMAND is
""" + "".join(
    f"         {command:8}{what}: see {command} --help; a file of that name is ./{command}\n"
    for command, (_, what) in COMMANDS.items()
)


def main(arguments: list[str]) -> int:
    """Run a command or a program. Returns: an exit status."""
    first = arguments[0] if arguments else "--help"
    if first in ("-h", "--help"):
        print(USAGE, end="")
        return 0
    if first in ("-V", "--version"):
        from ._cli import version

        print(version.text())
        return 0
    if first in COMMANDS:
        return run_command(first, arguments[1:])
    return run_program(arguments)


def run_command(command: str, arguments: list[str]) -> int:
    try:
        module = import_module(COMMANDS[command][0])
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing == "dhaga":
            raise
        print(f"python -m dhaga {command} needs {missing}: pip install 'dhaga[{command}]'", file=sys.stderr)
        return 1
    return module.main(arguments)  # type: ignore[no-any-return]


def run_program(arguments: list[str]) -> int:
    from ._cli import run

    try:
        names, arguments = split_names(run, arguments)
        find, rest = what_to_run(run, arguments)
        run.run(find, rest, names)
    except run.NoProgram as error:
        print(f"python -m dhaga: {error}", file=sys.stderr)
        return error.status
    return 0


def split_names(run: Any, arguments: list[str]) -> tuple[list[str], list[str]]:
    """Return the names given by ``--as``, and the arguments behind them. Raises: NoProgram."""
    names = []
    while arguments and (arguments[0] == "--as" or arguments[0].startswith("--as=")):
        _, equals, name = arguments[0].partition("=")
        rest = arguments[1:]
        if not equals:
            name, rest = (rest[0], rest[1:]) if rest else ("", [])
        if name not in run.compat.NAMES:
            raise run.NoProgram(f"--as takes {' or '.join(run.compat.NAMES)}, not {name!r}\n{USAGE}")
        names.append(name)
        arguments = rest
    if not arguments:
        raise run.NoProgram(f"a program is expected behind --as\n{USAGE}")
    return names, arguments


def what_to_run(run: Any, arguments: list[str]) -> tuple[Callable[[], Any], list[str]]:
    """Return a function that finds the program, and the program's arguments. Raises: NoProgram."""
    first, *rest = arguments
    if first == "-":
        return lambda: run.program_from_text(sys.stdin.read(), "<stdin>", "-"), rest
    option = first[:2]
    if option not in ("-m", "-c"):
        if first.startswith("-"):
            raise run.NoProgram(f"there is no option {first}\n{USAGE}")
        if not os.path.exists(first):
            raise run.NoProgram(
                f"can't open file {os.path.abspath(first)!r}, and there is no command {first!r}\n{USAGE}"
            )
        return partial(run.program_from_file, first), rest
    if first == option and not rest:
        raise run.NoProgram(f"argument expected for the {option} option\n{USAGE}")
    what, rest = (first[2:], rest) if first != option else (rest[0], rest[1:])
    return (
        partial(run.program_from_module, what)
        if option == "-m"
        else lambda: run.program_from_text(what, "<string>", "-c")
    ), rest


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
