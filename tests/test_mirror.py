"""tests/ mirrors dhaga/: each module has tests of its name in its district, and each file of tests has a module.

The district of a module is the first folder below dhaga/; the tests of ``dhaga/x/_y/z.py`` are ``tests/x/test_z*.py``,
those of a face, ``dhaga/x.py`` or ``dhaga/x/__init__.py``, are ``tests/test_x*.py``, or in its district.
"""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted(path.relative_to(ROOT / "dhaga") for path in (ROOT / "dhaga").rglob("*.py"))
DISTRICTS = {path.parts[0] for path in MODULES if len(path.parts) > 1}
FILES = sorted(
    path.relative_to(ROOT / "tests")
    for folder in (".", *DISTRICTS)
    for path in (ROOT / "tests" / folder).glob("test_*.py")
)
"""Of tests; what is in other folders (scenarios, kit, examples, benchmarks, …) is of no single module."""

WITHOUT_TESTS = {
    "_cli/top_table.py": "drawn by tests/_cli/test_top.py and test_top_screen.py",
    "_kernel/errors.py": "exceptions without code; raised all over the tests",
    "_kernel/hooks.py": "a table of names; each hook is called in the tests of its listener",
    "_pytest_entry/_dhaga_pytest.py": "by tests/test_pytest_plugin.py and tests/scenarios/test_startup.py",
    "aio/_sqlalchemy.py": "by tests/scenarios/test_asyncio_libraries.py, with the real SQLAlchemy",
    "compat/_absent.py": "errors: by tests/compat/test_eventlet.py",
    "compat/_prompt.py": "by tests/compat/test_backdoor_eventlet.py and test_backdoor_gevent.py",
    "compat/eventlet/_settings.py": "set by debug.py, and seen in test_greenthread.py and test_tpool.py",
    "compat/eventlet/asyncio.py": "small: by tests/compat/test_eventlet.py",
    "compat/eventlet/corolocal.py": "small: by tests/compat/test_eventlet.py",
    "compat/eventlet/debug.py": "small: by tests/compat/test_eventlet.py",
    "compat/eventlet/greenio.py": "small: by tests/compat/test_eventlet.py",
    "compat/eventlet/green/ssl.py": "by tests/compat/test_finder.py",
    "compat/eventlet/support/_errors.py": "small: by tests/compat/test_eventlet.py",
    "compat/eventlet/support/greenlets.py": "small: by tests/compat/test_eventlet.py",
    "integrations/zmq/_context.py": "by test_zmq.py: what a program does with a context, its sockets and its proxies",
    "integrations/zmq/_install.py": "by test_zmq.py, too",
    "integrations/zmq/_poll.py": "by test_zmq.py, too",
    "integrations/zmq/_proxy.py": "by test_zmq.py, too",
    "integrations/zmq/_socket.py": "by test_zmq.py, too",
    "compat/gevent/baseserver.py": "by test_server_gevent.py",
    "compat/gevent/core.py": "by test_loop_gevent.py",
    "compat/gevent/exceptions.py": "by test_hub_gevent.py",
    "compat/gevent/local.py": "by test_socket_gevent.py: what is Dhaga's own under gevent's name",
    "compat/gevent/monkey.py": "by test_socket_gevent.py: what is Dhaga's own under gevent's name",
    "compat/gevent/os.py": "by test_fileobject_gevent.py",
    "compat/gevent/select.py": "by test_socket_gevent.py: what is Dhaga's own under gevent's name",
    "compat/gevent/selectors.py": "by test_socket_gevent.py: what is Dhaga's own under gevent's name",
    "compat/gevent/signal.py": "by test_socket_gevent.py: what is Dhaga's own under gevent's name",
    "compat/gevent/ssl.py": "by test_socket_gevent.py: what is Dhaga's own under gevent's name",
    "compat/gevent/subprocess.py": "by test_socket_gevent.py: what is Dhaga's own under gevent's name",
    "compat/gevent/thread.py": "by test_socket_gevent.py: what is Dhaga's own under gevent's name",
    "compat/gevent/threading.py": "by test_socket_gevent.py: what is Dhaga's own under gevent's name",
    "compat/gevent/time.py": "by test_socket_gevent.py: what is Dhaga's own under gevent's name",
    "compat/gevent/util.py": "by test_threadpool_gevent.py",
    "debug/_helper_thread.py": "by tests/debug/test_thread_server.py and test_watchdog.py, whose threads these are",
}
"""Modules that tests of another name exercise, and which."""

WITHOUT_MODULE = {
    "_kernel/test_invariants.py": "what holds for the whole kernel, by the numbers of its design",
    "integrations/test_dask.py": "a framework that needs no module of ours: it takes dhaga.futures.Executor",
    "integrations/test_taskiq.py": "a framework that needs no module of ours: it awaits dhagas",
    "test_docs.py": "the snippets of docs/, and what its pages list",
    "test_docstrings.py": "the examples in the docstrings of all public names",
    "test_public_names.py": "what completing shows of the package and of the objects that users hold",
    "test_atomic_lines.py": "the bytecode of lines in several modules",
    "test_layers.py": "the imports of all modules",
    "test_mirror.py": "the tests themselves",
    "test_packaging.py": "the checkout and the wheel",
    "test_readme.py": "README.md",
}


def names_of(module: Path) -> set[tuple[str, str]]:
    """Return the folder below tests/ and the beginning of the name, of each file that may test a module."""
    district = module.parts[0] if len(module.parts) > 1 else "."
    if module.name != "__init__.py":
        return {(district, module.stem.strip("_"))}
    face = module.parent.name
    return {(".", face), (district, face)}


def is_named_so(file: Path, names: set[tuple[str, str]]) -> bool:
    subject = file.stem.removeprefix("test_")
    return any(file.parent == Path(folder) and f"{subject}_".startswith(f"{name}_") for folder, name in names)


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


def test_files_of_tests_are_not_too_long() -> None:
    long = {str(file): len((ROOT / "tests" / file).read_text("utf-8").splitlines()) for file in FILES}
    assert {name: lines for name, lines in long.items() if lines > 800} == {}
