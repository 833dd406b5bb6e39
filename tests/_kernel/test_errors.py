from __future__ import annotations

import pickle
import pkgutil
import tomllib
import traceback
from pathlib import Path

import pytest

from dhaga._kernel import errors

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize("error", [errors.Deadlock, errors.LeftBehind, errors.ParkError, errors.PatchError])
def test_a_traceback_ends_with_the_command_and_the_address_of_causes_and_cures(error: type[RuntimeError]) -> None:
    copied = pickle.loads(pickle.dumps(error("why")))
    last = traceback.format_exception(copied)[-1].rstrip()
    address = f"{PROJECT['urls']['Documentation']}/reference/errors.html#{error.__name__.lower()}"
    command = f"python -m dhaga explain {error.__name__}"
    assert (str(copied), last) == ("why", f"Causes and cures: {command}, or {address}")


@pytest.mark.parametrize(
    "name", ["dhaga.Cancelled", "dhaga.Deadlock", "dhaga.LeftBehind", "dhaga.ParkError", "dhaga.monkey.PatchError"]
)
def test_a_traceback_shows_the_name_to_import(name: str) -> None:
    error = getattr(errors, name.rpartition(".")[2])
    assert traceback.format_exception_only(error("why"))[0] == f"{name}: why\n"
    assert pkgutil.resolve_name(name) is error
