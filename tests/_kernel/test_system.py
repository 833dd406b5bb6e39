"""The platform's room: one set of names for POSIX and Windows; no other module asks for the platform."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

import dhaga
from dhaga._kernel.platform.system import system

ROOM = Path(dhaga.__file__).parent / "_kernel" / "platform"
ONLY_ON_WINDOWS = {"STATUS_CONTROL_C_EXIT", "DWORD", "ACCESS_DENIED", "MAY_QUERY", "STILL_ACTIVE"}
ONLY_ON_POSIX = {"NO_LIMIT", "TIMEVAL", "ZERO_BYTES"}
"""Constants that only the functions of one file use."""


def names_of(file: str) -> set[str]:
    """Return the names that a file of the room defines, without those that hold a standard function."""
    found = set()
    for node in ast.parse((ROOM / file).read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found.update(each.id for each in ast.walk(ast.Tuple(targets)) if isinstance(each, ast.Name))
    return {name for name in found if not name.startswith("standard_")}


def test_both_files_have_the_same_names() -> None:
    assert names_of("posix.py") - ONLY_ON_POSIX == names_of("windows.py") - ONLY_ON_WINDOWS


def test_each_name_is_used() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in ROOM.parent.parent.rglob("*.py"))
    used = set(re.findall(r"\b(?:system|platform)\.(\w+)", text))
    assert names_of("posix.py") - ONLY_ON_POSIX - used == set()


def test_the_file_is_that_of_the_platform() -> None:
    assert system.__name__.rpartition(".")[2] == ("windows" if sys.platform == "win32" else "posix")


@pytest.mark.long("reads every file of the package")
def test_no_other_module_asks_whether_this_is_windows() -> None:
    asks = re.compile(r"""["']win32["']|["']nt["']|os\.name\b""")
    package = ROOM.parent.parent
    found = {
        str(path.relative_to(package)).replace("\\", "/")
        for path in package.rglob("*.py")
        if asks.search(path.read_text(encoding="utf-8"))
    }
    assert found == {"_kernel/platform/system.py"}
