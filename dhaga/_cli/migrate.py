"""``python -m dhaga migrate PATH``: what a source tree uses of gevent, eventlet and threading, and what to do with it.

Files are parsed, never imported. The status is that of grep, so that a build can ask: 0 if nothing of gevent or
eventlet is used, or left after ``--write``; 1 if something is; 2 if something could not be read.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Iterable

from .migrate_files import Unread, decode, python_files, read
from .migrate_report import Finding, Report
from .migrate_uses import HINT, Exports, Module

PROGRAM = "python -m dhaga migrate"


def main(arguments: list[str]) -> int:
    """Print the report, or the diff. Returns: an exit status."""
    options = command_line().parse_args(arguments)
    report = look(options.paths)
    if options.json:
        print(json.dumps(report.as_json(), indent=1))
    else:
        print("\n".join(report.lines()))
    return status_of(report)


def status_of(report: Report) -> int:
    return 2 if report.unread else 1 if report.left else 0


def look(paths: Iterable[str]) -> Report:
    """Return what the files below some paths use. Nothing is changed."""
    unread: list[Unread] = []
    modules, count = modules_of(paths, unread)
    findings = [Finding(module.source.file, use) for module in modules for use in module.uses]
    return Report(count, findings, unread)


def modules_of(paths: Iterable[str], unread: list[Unread]) -> tuple[list[Module], int]:
    """Return the modules that use a library, by themselves or by another module of the tree, and the count of files."""
    exports = Exports()
    found: list[Module] = []
    others: list[str] = []
    for path in paths:
        for file in python_files(path, unread):
            data = read(file, unread)
            if data is None or not HINT.search(data):
                others.append(file)
            elif (module := parsed(file, data, exports, unread)) is not None:
                found.append(module)
    count = len(others) + len(found) + len(unread)
    return [module for module in found if module.uses], count


def parsed(file: str, data: bytes, exports: Exports, unread: list[Unread]) -> Module | None:
    try:
        with warnings.catch_warnings(action="ignore"):  # of escapes in strings
            return Module(decode(file, data), exports)
    except SyntaxError as error:
        unread.append(Unread(file, f"{error.msg}{f' at line {error.lineno}' if error.lineno else ''}"))
    except (ValueError, RecursionError, MemoryError) as error:
        unread.append(Unread(file, str(error) or type(error).__name__))
    return None


def command_line() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="List each use of gevent, eventlet and threading in the Python files of a folder: where, what to "
        "write instead, and what then behaves differently. Nothing need be rewritten to run: python -m dhaga --as "
        "gevent program.py. Status 0: nothing of gevent or eventlet is used, 1: something is, 2: a file could not be "
        "read.",
    )
    add = parser.add_argument
    add("paths", metavar="PATH", nargs="+", help="a folder or a file")
    add("--json", action="store_true", help="the report as JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
