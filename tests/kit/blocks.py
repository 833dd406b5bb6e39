"""The blocks of a page that are not Python. Each is parsed by the program for which it is written, or by a parser.

``sh`` and ``console`` blocks are read by bash, and their commands by the parsers of those commands; units by
``systemd-analyze``; TOML by ``tomllib`` and, if it lists faults, by ``simulate``. A language without a check is an
error, so that no block of a new language is left unread.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from configparser import ConfigParser
from pathlib import Path
from typing import NamedTuple

from dhaga.simulation.network import Faults
from tests.kit.shell_commands import check_command, commands

FENCE = re.compile(r"^```(?P<language>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
UNIT = re.compile(r"^# /etc/systemd/system/(\S+)\n", re.MULTILINE)
UNREAD = {"text", "diff", "pycon"}
"""Languages that no program reads: output, changes, sessions."""

ELSEWHERE = {"python"}
"""Languages whose blocks run: see snippets.py."""


class Block(NamedTuple):
    """A fenced block: the line of its text on the page, its language, and the text."""

    line: int
    language: str
    text: str

    def check(self) -> None:
        """Parse the block. Raises: AssertionError, or the error of a parser."""
        assert self.language in CHECKS, f"nothing reads {self.language!r}: add a check to tests/kit/blocks.py"
        CHECKS[self.language](self.text)


def fenced(text: str, unnamed: str = "") -> list[Block]:
    """Return the blocks of a page, without directives of Sphinx. ``unnamed``: the language of blocks that name none."""
    return [
        Block(text.count("\n", 0, found.start("text")), found["language"] or unnamed, found["text"])
        for found in FENCE.finditer(text)
        if not found["language"].startswith("{")
    ]


def read_blocks(text: str, unnamed: str = "") -> Iterator[Block]:
    """Yield the blocks that a check reads."""
    return (block for block in fenced(text, unnamed) if block.language not in UNREAD | ELSEWHERE)


def run(*command: str, text: str = "") -> None:
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


# ---- one function for each language


def check_shell(text: str) -> None:
    """Parse the text with bash, and check each command."""
    run("bash", "-n", text=text)
    for command in commands(text):
        check_command(command)


def check_console(text: str) -> None:
    """Check the typed lines."""
    typed = [line.removeprefix("$ ") for line in text.splitlines() if line.startswith("$ ")]
    assert typed, "no line begins with '$ '"
    check_shell("\n".join(typed) + "\n")


def check_toml(text: str) -> None:
    """Parse the text. A list of faults is also parsed as by ``python -m dhaga simulate --faults``."""
    if "faults" in tomllib.loads(text):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "faults.toml")
            file.write_text(text)
            Faults.of(str(file))


def check_units(text: str) -> None:
    """Check units of systemd, each below a comment with its path. Each unit must be ready for ``systemctl enable``."""
    beginning, *found = UNIT.split(text)
    assert found and not beginning.strip(), "a unit begins with a comment: # /etc/systemd/system/NAME"
    units = dict(zip(found[::2], found[1::2], strict=True))
    for name, unit in units.items():
        check_unit(name, unit)
    if shutil.which("systemd-analyze"):
        with tempfile.TemporaryDirectory() as folder:
            verify_units(units, Path(folder))


def check_unit(name: str, text: str) -> None:
    """Check the fields that ``systemd-analyze`` does not require, and the command of a service."""
    unit = ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read_string(text)
    assert unit.has_option("Install", "WantedBy"), f"{name}: systemctl enable needs WantedBy in [Install]"
    if unit.has_section("Service"):
        service = unit["Service"]
        assert {"WorkingDirectory", "User"} <= set(service), f"{name}: starts in / and as root"
        for command in commands(service["ExecStart"]):
            check_command(command)


def verify_units(units: dict[str, str], folder: Path) -> None:
    """Run ``systemd-analyze`` on the units, with this Python instead of the program of a service."""
    for name, unit in units.items():
        (folder / name).write_text(re.sub(r"^(ExecStart=)\S+", rf"\g<1>{sys.executable}", unit, flags=re.MULTILINE))
    run("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", *(str(folder / name) for name in units))


INSTRUCTIONS = {"FROM", "RUN", "CMD", "USER", "WORKDIR", "COPY", "ENV", "EXPOSE", "ENTRYPOINT", "ARG", "HEALTHCHECK"}


def check_dockerfile(text: str) -> None:
    """Check the instructions and their commands. CMD must have the JSON form, in which the program gets signals."""
    lines = [line.split(" ", 1) for line in text.replace("\\\n", "").splitlines() if line and line[0] != "#"]
    assert lines[0][0] == "FROM" and all(len(line) == 2 and line[0] in INSTRUCTIONS for line in lines), lines
    for instruction, value in lines:
        if instruction == "RUN":
            check_shell(value + "\n")
        elif instruction in ("CMD", "ENTRYPOINT"):
            check_command(json.loads(value))


CHECKS: dict[str, Callable[[str], None]] = {
    "sh": check_shell,
    "console": check_console,
    "toml": check_toml,
    "ini": check_units,
    "dockerfile": check_dockerfile,
}
