"""``python -m dhaga migrate PATH``: lists uses of gevent, eventlet and threading in a tree, with Dhaga's counterparts.

Files are parsed, never imported. The exit status is meant for builds. It is 2 if a file could not be read or written, 1
if a use of gevent, eventlet or a similar package is left, and otherwise 0.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

from ..arguments import CommandLine
from .exports import Exports, imported
from .files import Unread, decode, python_files, read, write
from .follow import Elsewhere
from .names import IMITATED
from .report import Finding, Report
from .rewrite import Rewriting, rewrite_all
from .uses import HINT, Module


def main(arguments: list[str]) -> int:
    """Print the report or the diff. Returns: the exit status."""
    return run(command_line().parse_args(arguments))


def run(options: argparse.Namespace) -> int:
    tree = Tree(options.paths)
    report = tree.rewritten(options.write) if options.rewrite or options.write else tree.report()
    if options.json:
        print(json.dumps(report.as_json(), indent=1))
    elif options.rewrite or options.write:
        show(sys.stdout, report.patch)
        show(sys.stderr, as_text(report.lines_of_rewriting()))
    else:
        show(sys.stdout, as_text(report.lines()))
    return status_of(report)


def show(stream: TextIO, content: bytes) -> None:
    stream.flush()
    stream.buffer.write(content)
    stream.flush()


def as_text(lines: Iterable[str]) -> bytes:
    """Return lines as encoded text. File names may contain any bytes."""
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace")


def status_of(report: Report) -> int:
    return 2 if report.unread else 1 if report.left else 0


class Tree:
    """The Python files below some paths, and the modules that use a library, directly or through another file."""

    def __init__(self, paths: Iterable[str]) -> None:
        self.unread: list[Unread] = []
        self.files: list[str] = []
        self.modules: dict[str, Module] = {}
        seen: set[str] = set()  # two paths may lead to one file
        for file in (each for path in paths for each in python_files(path, self.unread)):
            real = os.path.realpath(file)
            data = None if real in seen else read(file, self.unread)
            seen.add(real)
            if data is not None:
                self.files.append(file)
                if HINT.search(data):
                    self._parse(file, data, Exports())
        self._follow_exports()

    def _parse(self, file: str, data: bytes, exports: Exports) -> Module | None:
        try:
            with warnings.catch_warnings(action="ignore"):  # warnings about escapes in strings
                self.modules[file] = Module(decode(file, data), exports)
                return self.modules[file]
        except SyntaxError as error:
            self.unread.append(Unread(file, f"{error.msg}{f' at line {error.lineno}' if error.lineno else ''}"))
        except (ValueError, RecursionError, MemoryError) as error:
            self.unread.append(Unread(file, str(error) or type(error).__name__))
        return None

    def _follow_exports(self) -> None:
        """Parse the files that import a name of gevent, eventlet or a similar library from another file of the tree.

        Repeat this until no further such file is found.
        """
        exports = Exports()
        new = [module for module in self.modules.values() if exports.add(module)]
        imports = {file: imported(Path(file).read_bytes()) for file in self.files} if new else {}
        while new:
            wanted = exports.wanted(new)
            new = []
            for file, taken in imports.items():
                if any(not names.isdisjoint(wanted.get(last, ())) for last, names in taken):
                    module = self._parse(file, Path(file).read_bytes(), exports)
                    if module is not None and exports.add(module):
                        new.append(module)

    def report(self) -> Report:
        findings = [Finding(file, use) for file, module in sorted(self.modules.items()) for use in module.uses]
        return Report(len(self.files), findings, self.unread)

    def rewritten(self, writes: bool) -> Report:
        """Return the report of the changes. ``writes``: whether the files are changed."""
        modules = [module for _, module in sorted(self.modules.items())]
        concerned = any(use.package in IMITATED for module in modules for use in module.uses)
        files = self.files if concerned else []
        elsewhere = Elsewhere((file, Path(file).read_bytes()) for file in files)
        findings, diff, patch = [], "", b""
        for done in rewrite_all(modules, elsewhere):
            module, file = done.module, done.module.source.file
            if writes and done.text != module.source.text:
                done = self._written(done)
            diff += "".join(done.diff())
            patch += done.patch()
            findings += [
                Finding(file, use, use.node in done.changed, done.left.get(use.node, "")) for use in module.uses
            ]
        return Report(len(self.files), findings, self.unread, diff, patch)

    def _written(self, done: Rewriting) -> Rewriting:
        try:
            write(done.module.source, done.text)
        except OSError as error:
            why = error.strerror or str(error)
            self.unread.append(Unread(done.module.source.file, f"not written: {why}"))
            return Rewriting(done.module, done.module.source.text, set(), {use.node: why for use in done.module.uses})
        return done


def command_line() -> argparse.ArgumentParser:
    parser = CommandLine(
        "migrate",
        "PATH …",
        description="List each use of gevent, eventlet and threading in the Python files of PATH: its place, what "
        "to write instead, and what then behaves differently. A program also runs without a change: python -m dhaga "
        "--as gevent program.py. Exit status: 0 if nothing of gevent or eventlet is used or left, 1 if something is, 2 "
        "if a file could not be read or written.",
    )
    add = parser.add_argument
    add("paths", metavar="PATH", nargs="+", help=argparse.SUPPRESS)
    add(
        "--rewrite",
        action="store_true",
        help="print a unified diff of the uses that keep their meaning under Dhaga's own names",
    )
    add("--write", action="store_true", help="print the diff, and change the files")
    add("--json", action="store_true", help="print the report as JSON")
    return parser
