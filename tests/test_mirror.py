"""tests/ mirrors dhaga/: each module has tests of its name in its district, and each file of tests has a module."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.kit import mirror
from tests.kit.mirror import FILES, MODULES, ROOT, WITHOUT_TESTS, is_named_so, names_of

WITHOUT_MODULE = {
    "_kernel/test_invariants.py": "what holds for the whole kernel, by the numbers of its design",
    "_kernel/test_look_then_act.py": "the source of all that OS threads share",
    "compat/test_timeouts_computing.py": "what both faces' timeouts strike, which is of the kernel's preemption",
    "integrations/test_dask.py": "a framework that needs no module of ours: it takes dhaga.futures.Executor",
    "integrations/test_taskiq.py": "a framework that needs no module of ours: it awaits dhagas",
    "monkey/test_names_of_subclasses.py": "subclasses of what the patch replaces, with attributes of their own",
    "monkey/test_standard_names.py": "names and subclasses of the standard library, under the patch",
    "test_standard_objects.py": "the standard objects that all faces export",
    "test_docs.py": "the snippets of docs/, and what its pages list",
    "test_docstrings.py": "the examples in the docstrings of all public names",
    "test_public_names.py": "what completing shows of the package and of the objects that users hold",
    "test_layers.py": "the imports of all modules",
    "test_mirror.py": "the tests themselves",
    "test_packaging.py": "the checkout and the wheel",
    "test_prose.py": "the English of docstrings and comments",
    "test_readme.py": "README.md",
    "test_site.py": "the built pages in a browser",
}


def is_face(module: Path) -> bool:
    """Tell a module that holds no code of its own: its names are tested where they come from."""
    return module.name == "__init__.py"


@pytest.mark.parametrize("module", [each for each in MODULES if not is_face(each)], ids=str)
def test_each_module_has_tests_of_its_name(module: Path) -> None:
    found = [file for file in FILES if is_named_so(file, names_of(module))]
    assert bool(found) is (str(module) not in WITHOUT_TESTS), (
        f"has {found}, and is listed: {str(module) in WITHOUT_TESTS}"
    )


@pytest.mark.parametrize("file", FILES, ids=str)
def test_each_file_of_tests_has_a_module_of_its_name(file: Path) -> None:
    found = [module for module in MODULES if is_named_so(file, names_of(module))]
    assert bool(found) is (str(file) not in WITHOUT_MODULE), (
        f"is of {found}, and is listed: {str(file) in WITHOUT_MODULE}"
    )


def test_the_exceptions_are_modules_and_files_that_there_are() -> None:
    assert WITHOUT_TESTS.keys() <= {str(module) for module in MODULES}
    assert WITHOUT_MODULE.keys() <= {str(file) for file in FILES}
    for module, where in WITHOUT_TESTS.items():
        assert len(mirror.tests_of(Path(module))) >= len(set(re.findall(r"test_\w+\.py", where))), module


@pytest.mark.parametrize(
    ("module", "files"),
    [
        ("_sync/lock", "tests/_sync/test_lock.py"),
        ("dhaga/_kernel/hooks.py", "tests/test_mirror.py"),
        ("integrations/zmq/_poll.py", "tests/integrations/test_zmq.py"),
        ("servers/", "tests/servers/test_acceptor.py tests/servers/test_tcp.py"),
    ],
)
def test_the_tests_of_a_module_are_found(capsys: pytest.CaptureFixture[str], module: str, files: str) -> None:
    mirror.main(module)
    assert set(files.split()) <= set(capsys.readouterr().out.split())


def test_a_module_that_is_not_there_is_an_error() -> None:
    with pytest.raises(SystemExit, match=r"no module dhaga/_sync/look\.py"):
        mirror.main("_sync/look")


def test_files_of_tests_are_not_too_long() -> None:
    long = {str(file): len((ROOT / "tests" / file).read_text("utf-8").splitlines()) for file in FILES}
    assert {name: lines for name, lines in long.items() if lines > 800} == {}
