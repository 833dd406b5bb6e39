"""``python -m dhaga migrate PATH``: what a source tree uses of gevent, eventlet and threading, and what to do with it.

Files are parsed, never imported. The status is that of grep, so that a build can ask: 0 if nothing of gevent or
eventlet is used, or left after ``--write``; 1 if something is; 2 if something could not be read.
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

from .migrate_exports import Exports, imported
from .migrate_files import Unread, decode, python_files, read, write
from .migrate_follow import Elsewhere
from .migrate_names import IMITATED
from .migrate_report import Finding, Report
from .migrate_rewrite import Rewriting, rewrite_all
from .migrate_uses import HINT, Module

PROGRAM = "python -m dhaga migrate"


def main(arguments: list[str]) -> int:
    """Print the report, or the diff. Returns: an exit status."""
    options = command_line().parse_args(arguments)
    try:
        return run(options)
    except BrokenPipeError:  # the pager was quit: the flush at exit must not fail either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 2


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
    """Return lines as a text, whatever bytes the names of files are."""
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace")


def status_of(report: Report) -> int:
    return 2 if report.unread else 1 if report.left else 0


class Tree:
    """The Python files below some paths, and those of them that use a library, by themselves or by way of another."""

    def __init__(self, paths: Iterable[str]) -> None:
        self.unread: list[Unread] = []
        self.files: list[str] = []
        self.modules: dict[str, Module] = {}
        for path in paths:
            for file in python_files(path, self.unread):
                data = read(file, self.unread)
                if data is not None:
                    self.files.append(file)
                    if HINT.search(data):
                        self._parse(file, data, Exports())
        self._follow_exports()

    def _parse(self, file: str, data: bytes, exports: Exports) -> Module | None:
        try:
            with warnings.catch_warnings(action="ignore"):  # of escapes in strings
                self.modules[file] = Module(decode(file, data), exports)
                return self.modules[file]
        except SyntaxError as error:
            self.unread.append(Unread(file, f"{error.msg}{f' at line {error.lineno}' if error.lineno else ''}"))
        except (ValueError, RecursionError, MemoryError) as error:
            self.unread.append(Unread(file, str(error) or type(error).__name__))
        return None

    def _follow_exports(self) -> None:
        """Parse the files that import a library's name from another one of the tree, until no more are found."""
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
        """Return the report of what is changed; ``writes``: change the files."""
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
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="List each use of gevent, eventlet and threading in the Python files of a folder: where, what to "
        "write instead, and what then behaves differently. Nothing need be rewritten to run: python -m dhaga --as "
        "gevent program.py. Status 0: nothing of gevent or eventlet is used or left, 1: something is, 2: a file could "
        "not be read or written.",
    )
    add = parser.add_argument
    add("paths", metavar="PATH", nargs="+", help="a folder or a file")
    add("--rewrite", action="store_true", help="print a unified diff of what keeps its meaning in Dhaga's own names")
    add("--write", action="store_true", help="print it, and change the files by it")
    add("--json", action="store_true", help="print all of it as JSON")
    return parser
