"""Texts that ``python -m dhaga migrate`` rewrites in memory, and runs of programs before and after it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from textwrap import dedent

from dhaga._cli.migrate.edits import Text
from dhaga._cli.migrate.files import Source
from dhaga._cli.migrate.follow import Elsewhere, Follower
from dhaga._cli.migrate.rewrite import Rewriting, rewrite_all
from dhaga._cli.migrate.uses import Module
from tests.kit.scripts import PATIENCE, ROOT


def module(text: str, file: str = "program.py") -> Module:
    text = dedent(text) if text.startswith(" ") else text  # dedent would change line ends
    return Module(Source(file, text, "utf-8"))


def uses(text: str) -> list[tuple[int, str]]:
    """Return line and path of each use in a text."""
    return [(use.node.lineno, use.path) for use in module(text).uses]  # type: ignore[attr-defined]


def rewriting(text: str, others: dict[str, str] | None = None, file: str = "program.py") -> Rewriting:
    """Return the rewriting of a text, in a tree with other files."""
    here = module(text, file)
    files = {file: here.source.text, **(others or {})}
    elsewhere = Elsewhere((name, content.encode()) for name, content in files.items())
    return rewrite_all([here], elsewhere)[0]


def rewritten(text: str, others: dict[str, str] | None = None, file: str = "program.py") -> str:
    return rewriting(text, others, file).text


def reasons(text: str, others: dict[str, str] | None = None) -> list[str]:
    """Return the reasons why uses in a text are left unchanged, except imports, in the order of the lines."""
    done = rewriting(text, others)
    return [done.left[use.node] for use in done.module.uses if use.kind != "import" and use.node in done.left]


def follower(text: str, others: dict[str, str] | None = None) -> Follower:
    here = module(text)
    files = {"program.py": here.source.text, **(others or {})}
    return Follower(here.scopes, "program.py", Elsewhere((name, each.encode()) for name, each in files.items()))


def text_of(source: str) -> Text:
    return Text(dedent(source))


DRIVER = """
import contextlib, io, json, sys
printed = []
for number, text in enumerate(json.load(open(sys.argv[1]))):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(text, f"case {number}", "exec"), {"__name__": f"case{number}"})
    printed.append(out.getvalue())
print(json.dumps(printed))
"""


def outputs(texts: Iterable[str], folder: Path, *options: str) -> list[str]:
    """Return the output of each program. One process of ``python -m dhaga`` runs all of them."""
    (folder / "cases.json").write_text(json.dumps(list(texts)))
    (folder / "driver.py").write_text(DRIVER)
    command = [sys.executable, "-m", "dhaga", *options, "driver.py", "cases.json"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)
