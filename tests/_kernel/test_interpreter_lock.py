"""On a free-threaded build Dhaga says once which extension has turned the interpreter lock on."""

from __future__ import annotations

import logging
import pathlib
import shutil
import subprocess
import sysconfig
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import pytest

from dhaga._kernel.interpreter.interpreter_lock import BEGIN, END, LockWatch, named_in
from dhaga._kernel.interpreter.requirements import FREE_THREADED
from tests.kit.scripts import Outcome, prints, run


class Lock:
    """An interpreter lock that some extensions turn on."""

    def __init__(self, *demanding: str) -> None:
        self.demanding = demanding
        self.on = False
        self.watch = LockWatch(lambda: self.on)

    def create(self, loader: Any, spec: ModuleSpec) -> ModuleType:
        if spec.name in self.demanding:
            self.on = True
        return ModuleType(spec.name)

    def load(self, *names: str) -> None:
        for name in names:
            assert self.watch.load(self.create, None, ModuleSpec(name, None)).__name__ == name

    def start(self) -> None:
        self.watch.on_scheduler(object(), True)


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage().partition(":")[0] for record in caplog.records if record.levelno == logging.WARNING]


@pytest.mark.logs
def test_the_first_scheduler_names_the_extension_that_turned_the_lock_on(caplog: pytest.LogCaptureFixture) -> None:
    lock = Lock("second", "third")
    lock.load("first", "second", "third")
    assert told(caplog) == []
    lock.start()
    lock.start()
    assert told(caplog) == ["second has turned the interpreter lock on"]


@pytest.mark.logs
def test_an_extension_that_is_loaded_beside_a_scheduler_is_named_at_once(caplog: pytest.LogCaptureFixture) -> None:
    lock = Lock("second")
    lock.start()
    lock.load("first")
    assert told(caplog) == []
    lock.load("second")
    assert told(caplog) == ["second has turned the interpreter lock on"]


@pytest.mark.logs
def test_an_extension_of_before_is_named_if_its_warning_was_shown(caplog: pytest.LogCaptureFixture) -> None:
    assert named_in({"version": 0, (f"{BEGIN}early{END} that", RuntimeWarning, 1): True}) == "early"
    lock = Lock()
    lock.on = True
    lock.start()
    assert told(caplog) == ["A C extension that was imported before Dhaga has turned the interpreter lock on"]


# ---- with a real extension

DEMANDING = """
#include <Python.h>
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "demanding", NULL, 0};
PyMODINIT_FUNC PyInit_demanding(void) { return PyModule_Create(&definition); }
"""


@pytest.fixture
def extension(tmp_path: pathlib.Path) -> pathlib.Path:
    """Compile an extension that does not declare support of free threading; return its folder."""
    if not FREE_THREADED or shutil.which("cc") is None:
        pytest.skip("a free-threaded build and a C compiler are needed")
    (tmp_path / "demanding.c").write_text(DEMANDING)
    where = ["-I", sysconfig.get_path("include"), "-o", str(tmp_path / "demanding.so")]
    subprocess.run(["cc", "-shared", "-fPIC", *where, str(tmp_path / "demanding.c")], check=True)
    return tmp_path


def with_extension(folder: pathlib.Path, *imports: str, **environment: str) -> Outcome:
    lines = "\n".join([f"import sys; sys.path.append({str(folder)!r})", *imports, "dhaga.spawn(int).join()"])
    return run(lines, "-W", "ignore", **environment)


def test_an_extension_without_support_is_named_and_an_earlier_one_guessed(extension: pathlib.Path) -> None:
    (line,) = with_extension(extension, "import dhaga, demanding").err.splitlines()
    assert line.startswith("demanding has turned the interpreter lock on")
    (line,) = with_extension(extension, "import demanding, dhaga").err.splitlines()
    assert line.startswith("A C extension that was imported before Dhaga has turned")


@pytest.mark.parametrize("choice", ["0", "1"])
def test_who_has_settled_the_matter_reads_nothing(extension: pathlib.Path, choice: str) -> None:
    assert with_extension(extension, "import dhaga, demanding", PYTHON_GIL=choice).err == ""


@pytest.mark.skipif(FREE_THREADED, reason="it watches the lock")
def test_a_build_with_the_lock_watches_nothing() -> None:
    assert prints("import sys, dhaga; print('dhaga._kernel.interpreter.interpreter_lock' in sys.modules)") == ["False"]
