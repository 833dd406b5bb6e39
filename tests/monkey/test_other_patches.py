"""The patches of gevent and eventlet over ours: refused. A module stands in for each."""

from __future__ import annotations

import pathlib

import pytest

from tests.kit.scripts import prints
from tests.monkey.test_other_hubs import PATCHERS, write_package


@pytest.mark.parametrize("first", ["ours", "theirs"])
@pytest.mark.parametrize("name", PATCHERS)
def test_the_patch_of_another_hub_over_ours_is_refused_until_ours_is_gone(
    tmp_path: pathlib.Path, name: str, first: str
) -> None:
    write_package(tmp_path, name)
    module = f"{name}.{PATCHERS[name][0]}"
    assert prints(
        f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        if {first!r} == "theirs":
            import {module}
        import dhaga.monkey
        dhaga.monkey.patch()
        import {module}
        try:
            {module}.monkey_patch()
        except dhaga.monkey.PatchError as error:
            print(str(error).partition(",")[0])
            print("python -m dhaga --as {name} ..." in str(error), {module}.{PATCHERS[name][1]})
        dhaga.monkey.unpatch()
        {module}.monkey_patch()
        print({module}.{PATCHERS[name][1]})
        """,
        "-W",
        "ignore",
    ) == [f"{module}.monkey_patch() is called in a program that dhaga has patched", "True {}", "{'socket': True}"]
