"""gevent and eventlet in a patched program: the way out is named. Packages of these names stand in for them."""

from __future__ import annotations

import pathlib

import pytest

from tests.kit.scripts import prints

PATCHERS = {"gevent": ("monkey", "saved"), "eventlet": ("patcher", "already_patched")}


def write_package(folder: pathlib.Path, name: str) -> None:
    module, patched = PATCHERS[name]
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text("")
    (folder / name / f"{module}.py").write_text(f"{patched} = {{}}\ndef monkey_patch(): {patched}['socket'] = True\n")


@pytest.mark.parametrize("name", PATCHERS)
def test_the_import_of_another_hub_under_the_patch_is_warned_of_once(tmp_path: pathlib.Path, name: str) -> None:
    write_package(tmp_path, name)
    for before in (False, True):
        assert prints(f"""
            import sys, warnings
            sys.path.insert(0, {str(tmp_path)!r})
            if {before}:
                import {name}
            import dhaga.monkey
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                dhaga.monkey.patch()
                import {name}, {name}.{PATCHERS[name][0]}
                print(len(caught), caught[0].category.__name__)
                print({before} or caught[0].filename == "<string>")
                print(str(caught[0].message).partition(":")[0])
                print("python -m dhaga --as {name} ..." in str(caught[0].message))
        """) == ["1 RuntimeWarning", "True", f"{name} is imported into a program that dhaga has patched", "True"]


@pytest.mark.parametrize("name", PATCHERS)
def test_a_patch_over_that_of_another_hub_is_refused(tmp_path: pathlib.Path, name: str) -> None:
    write_package(tmp_path, name)
    module = f"{name}.{PATCHERS[name][0]}"
    assert prints(f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        import {module}
        {module}.monkey_patch()
        import dhaga.monkey
        try:
            dhaga.monkey.patch()
        except dhaga.monkey.PatchError as error:
            print(str(error).partition(",")[0], "--as {name} ..." in str(error), dhaga.monkey.is_patched())
    """) == [f"{name} has patched this program already True False"]
