"""``python -m dhaga COMMAND …``: which command is in which module. What one does is there."""

from __future__ import annotations

import sys
from importlib import import_module

COMMANDS = {"serve": ("dhaga.http.serve", "serve a WSGI app over HTTP")}
"""The module of each, whose ``main(arguments)`` returns an exit status; what it needs is in the extra of its name."""

USAGE = "usage: python -m dhaga COMMAND …, where COMMAND is\n" + "".join(
    f"  {command:8}{what}: see {command} --help\n" for command, (_, what) in COMMANDS.items()
)


def main(arguments: list[str]) -> int:
    """Run a command. Returns: an exit status."""
    command = arguments[0] if arguments else "--help"
    if command in ("-h", "--help"):
        print(USAGE, end="")
        return 0
    if command not in COMMANDS:
        print(f"python -m dhaga: there is no command {command!r}\n{USAGE}", end="", file=sys.stderr)
        return 2
    try:
        module = import_module(COMMANDS[command][0])
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing == "dhaga":
            raise
        print(f"python -m dhaga {command} needs {missing}: pip install 'dhaga[{command}]'", file=sys.stderr)
        return 1
    return module.main(arguments[1:])  # type: ignore[no-any-return]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
