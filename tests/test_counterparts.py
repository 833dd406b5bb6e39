"""What ``dhaga`` says to names of gevent, eventlet, trio and asyncio, and its public modules after a mere import."""

from __future__ import annotations

import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import dhaga
from dhaga._counterparts import COUNTERPARTS
from tests.kit.scripts import prints

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("name", COUNTERPARTS)
def test_a_name_of_another_library_says_its_counterpart(name: str) -> None:
    origin, counterpart = COUNTERPARTS[name]
    text = re.escape(f"{origin} {name} is {counterpart}")
    with pytest.raises(AttributeError, match=f"module 'dhaga' has no attribute '{name}': {text}"):
        getattr(dhaga, name)
    with pytest.raises(ImportError, match=f"cannot import name '{name}' from 'dhaga': {text}"):
        exec(f"from dhaga import {name}")
    assert not hasattr(dhaga, name)


def test_other_names_are_missing_as_ever() -> None:
    for name in ("nonsense", "_nonsense", "__nonsense__"):
        with pytest.raises(AttributeError, match=f"module 'dhaga' has no attribute '{name}'$"):
            getattr(dhaga, name)
        with pytest.raises(ImportError, match=f"cannot import name '{name}' from 'dhaga'"):
            exec(f"from dhaga import {name}")


def test_what_is_named_as_a_counterpart_exists() -> None:
    for _, text in COUNTERPARTS.values():
        for path in re.findall(r"\bdhaga(?:\.[A-Za-z_]\w*)+", text.replace("dhaga program.py", "")):
            pkgutil.resolve_name(path)


def test_none_of_them_is_a_name_of_ours() -> None:
    assert COUNTERPARTS.keys().isdisjoint({*dhaga.__all__, *dhaga.SUBMODULES})


def test_the_submodules_are_the_public_ones() -> None:
    public = {found.name for found in pkgutil.iter_modules(dhaga.__path__) if not found.name.startswith("_")}
    assert dhaga.SUBMODULES | {"aio", "compat", "pytest_plugin"} == public


def test_a_submodule_is_imported_by_its_first_use() -> None:
    code = """
        import sys, dhaga
        print("dhaga.queue" in sys.modules, "dhaga._counterparts" in sys.modules)
        print(dhaga.queue.Queue.__module__, dhaga.debug.dump.__name__, dhaga.monkey.patch.__name__)
        print(all(hasattr(dhaga, name) for name in dhaga.SUBMODULES - {"integrations"}))
    """
    assert prints(code) == ["False False", "dhaga.queue dump patch", "True"]


@pytest.mark.once
def test_type_checkers_know_the_submodules_and_no_misspelt_name(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import dhaga\n"
        "reveal_type(dhaga.queue.Queue[int]().get())\n"
        "reveal_type(dhaga.wait([dhaga.spawn(int)]).done)\n"
        "reveal_type(next(dhaga.as_completed([dhaga.spawn(int)])))\n"
        "dhaga.spwan\n"
    )
    command = [sys.executable, "-m", "mypy", "--strict", str(program)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    lines = [line.partition(": ")[2] for line in done.stdout.splitlines()]
    of_a_dhaga = "dhaga._kernel.run.microthread.Dhaga[int]"
    assert lines[:3] == [f'note: Revealed type is "{each}"' for each in ("int", f"set[{of_a_dhaga}]", of_a_dhaga)]
    assert lines[3].startswith('error: Module has no attribute "spwan"')
