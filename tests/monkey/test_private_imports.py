"""Private copies of packages: how they are imported, and that nobody else sees it."""

from __future__ import annotations

import importlib
import pathlib
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import dhaga
import dhaga.queue
import dhaga.time
from dhaga.monkey import patched_imports
from tests.kit.private_modules import Write, private, written


@pytest.fixture
def write(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    with written(tmp_path, monkeypatch) as write:
        yield write


# ---- the block


def test_the_block_imports_a_private_copy_and_leaves_the_public_one(write: Write) -> None:
    write(try_one="import socket, threading, time")
    with patched_imports("try_one") as world:
        import try_one
    copy = try_one
    assert "try_one" not in sys.modules and repr(world) == "<PrivateModules of try_one, 6 modules of its own>"
    import try_one

    assert sys.modules["try_one"] is try_one is not copy
    assert try_one.socket is sys.modules["socket"] and try_one.threading is threading and try_one.time is time
    assert copy.socket.socket is dhaga.socket.socket and copy.time.sleep is dhaga.time.sleep
    assert copy.threading.Thread is dhaga.threading.Thread is not threading.Thread
    with world:
        import try_one
    assert try_one is copy


def test_the_block_is_the_callers_alone(write: Write) -> None:
    write(try_one="")

    def name_of_importer() -> bool:
        import try_one

        return sys.modules.get("try_one") is try_one

    with patched_imports("try_one"):
        assert not name_of_importer()
        assert dhaga.spawn(name_of_importer).result()
        seen: list[bool] = []
        thread = threading.Thread(target=lambda: seen.append(name_of_importer()))
        thread.start()
        thread.join()
        assert seen == [True]
        assert not name_of_importer()


def test_blocks_of_several_dhagas_do_not_mix(write: Write) -> None:
    write(try_one="import time; time.sleep(0.01)")

    def imports() -> Any:
        with patched_imports("try_one"):
            dhaga.sleep(0.01)
            import try_one

            dhaga.sleep(0.01)
        return try_one

    assert len({id(d.result()) for d in [dhaga.spawn(imports) for _ in range(5)]}) == 5


def test_blocks_nest_and_the_innermost_that_names_a_package_has_it(write: Write) -> None:
    write(try_one="", try_two="")
    with patched_imports("try_one", "try_two") as outer:
        with patched_imports("try_two") as inner:
            import try_one
            import try_two
    assert outer.modules["try_one"] is try_one and inner.modules["try_two"] is try_two
    assert "try_two" not in outer.modules


def test_a_public_module_imported_in_the_block_gets_public_ones(write: Write) -> None:
    write(try_one="", try_user="import try_one")
    with patched_imports("try_one"):
        import try_one
        import try_user
    assert try_user.try_one is sys.modules["try_one"] is not try_one


def test_an_error_in_the_block_ends_it(write: Write) -> None:
    with pytest.raises(ZeroDivisionError):
        with patched_imports("try_one"):
            1 / 0


def test_the_block_is_left_by_who_has_entered_it() -> None:
    with patched_imports("try_one") as world:
        with pytest.raises(RuntimeError, match="leave the block"):
            dhaga.spawn(world.__exit__, None, None, None).result()


def test_names_are_asked_for() -> None:
    with pytest.raises(TypeError, match="name the packages to import"):
        patched_imports()


# ---- importing


def test_functions_import_within_their_world_later(write: Write) -> None:
    write(
        try_one="""
            import importlib
            def late():
                import try_two, http.client
                return try_two, importlib.import_module("try_two"), __import__("try_two"), http.client.socket.socket
        """,
        try_two="",
    )
    late = private("try_one").late
    found = late()
    assert found[0] is found[1] is found[2] and found[3] is dhaga.socket.socket
    assert dhaga.spawn(late).result() == found
    seen: list[Any] = []
    thread = threading.Thread(target=lambda: seen.append(late()))
    thread.start()
    thread.join()
    assert seen == [found] and "try_two" not in sys.modules


def test_packages_import_relatively_and_in_circles(write: Write) -> None:
    write(
        {
            "try_package/__init__": "from . import a\nfrom .a import b as b_of_a\n__all__ = ['a', 'd']",
            "try_package/a": "from . import b\nvalue = b.value",
            "try_package/b": "from . import a\nfrom .sub import c\nimport try_package.a as self\nvalue = a.__name__, c",
            "try_package/sub/__init__": "",
            "try_package/sub/c": "from .. import b",
            "try_package/d": "",
            "try_star": "from try_package import *",
        }
    )
    star = private("try_star")
    package = star.a.b.self
    assert package is star.a and star.a.value == ("try_package.a", star.a.b.c) and star.d.__name__ == "try_package.d"
    assert not [name for name in sys.modules if name.startswith("try_")]


def test_a_circle_prefers_its_own_module_to_a_public_one(write: Write) -> None:
    write(
        {
            "try_package/__init__": "from . import a",
            "try_package/a": "from . import b",
            "try_package/b": "from . import a\nseen = a",
        }
    )
    public = importlib.import_module("try_package")
    copy = private("try_package")
    assert copy.a.b.seen is copy.a is not public.a


def test_what_cannot_be_found_is_not_found(write: Write) -> None:
    write({"try_one": "", "try_bad": "import try_missing", "try_package/__init__": "from . import nowhere"})
    world = patched_imports("try_missing", "try_one")
    with world, pytest.raises(ModuleNotFoundError, match="No module named 'try_missing'") as caught:
        import try_missing  # noqa: F401
    assert caught.value.name == "try_missing"
    for name, text in {
        "try_bad": "No module named 'try_missing'",
        "try_one.x": "No module named 'try_one.x'; 'try_one' is not a package",
        "try_package": "cannot import name 'nowhere' from",
        "http.nothing": "No module named 'http.nothing'",
        "os.nothing": "No module named 'os.nothing'; 'os' is not a package",
    }.items():
        with pytest.raises(ImportError, match=text):
            world.import_module(name)
    with pytest.raises(ImportError, match="beyond top-level package"):
        world.import_module("..x", "try_one")


def test_nothing_is_left_of_a_package_that_fails(write: Write) -> None:
    write(
        {
            "try_package/__init__": "from . import part\nimport try_one\nif try_one.fails: raise ValueError",
            "try_package/part": "",
            "try_one": "fails = True",
        }
    )
    world = patched_imports("try_package")
    with world, pytest.raises(ValueError):
        import try_package
    assert not [name for name in world.modules if name.startswith("try_package")]
    world.modules["try_one"].fails = False  # type: ignore[attr-defined]
    with world:
        import try_package
    assert world.modules["try_package.part"] is try_package.part


def test_a_module_can_put_another_in_its_place_and_compute_its_attributes(write: Write) -> None:
    write(
        try_other="import sys\nclass Other:\n    name = __name__\nsys.modules[__name__] = Other()",
        try_lazy="def __getattr__(name):\n    import importlib\n    return importlib.import_module('try_other')",
    )
    world = patched_imports("try_lazy")
    assert world.import_module("try_other").name == "try_other"
    assert world.import_module("try_lazy").anything is world.modules["try_other"]


def test_namespace_packages_nest(write: Write) -> None:
    write({"try_space/inner/module": "value = 1", "try_user": "from try_space.inner import module"})
    assert private("try_user").module.value == 1
    assert "try_space" not in sys.modules


@pytest.mark.skipif(sys.version_info < (3, 15), reason="lazy imports came with Python 3.15")
def test_lazy_imports_are_private_too(write: Write) -> None:
    write(
        try_user="""
            lazy import socket
            lazy import try_space.module
            lazy from threading import Lock
            def get(): return socket.socket, Lock, try_space.module.value
        """,
        **{"try_space/module": "value = 1"},
    )
    assert private("try_user").get() == (dhaga.socket.socket, dhaga.threading.Lock, 1)
    assert "try_space" not in sys.modules


def test_a_module_is_run_again_in_its_place(write: Write, tmp_path: pathlib.Path) -> None:
    write(try_one="import importlib, socket, sys\ndef again(): return importlib.reload(sys.modules[__name__])")
    one = private("try_one")
    one.again.__globals__["left"] = 1
    assert one.again() is one and one.left == 1


def test_compiled_code_that_private_code_calls_imports_publicly(write: Write) -> None:
    write(
        try_one="""
            import ctypes
            def by_c():
                ctypes.pythonapi.PyImport_ImportModule.restype = ctypes.py_object
                return ctypes.pythonapi.PyImport_ImportModule(b"try_two")
        """,
        try_two="",
    )
    by_c = private("try_one").by_c
    assert by_c() is sys.modules["try_two"]


def test_importers_that_a_package_installs_are_its_own() -> None:
    pytest.importorskip("six")
    before = list(sys.meta_path)
    world = patched_imports("six")
    moved = world.import_module("six.moves.urllib.request")
    assert moved.urlopen.__globals__["socket"].socket is dhaga.socket.socket
    assert world.import_module("six.moves").queue.Queue is dhaga.queue.Queue
    assert sys.meta_path == before


def test_packages_with_compiled_modules_are_shared_unless_named(write: Write) -> None:
    compiled = pytest.importorskip("charset_normalizer")
    write(try_one="import charset_normalizer", try_shared="", try_two="import try_shared")
    assert private("try_one").charset_normalizer is compiled
    assert private("charset_normalizer") is not compiled
    with patched_imports("try_two", shared=["try_shared"]):
        import try_two
    assert try_two.try_shared is sys.modules["try_shared"]


# ---- at once


def test_several_dhagas_import_a_module_once(write: Write) -> None:
    write(try_slow="import time, builtins\ntime.sleep(0.02)\ndone = [1]")
    world = patched_imports("try_slow")
    found = [dhaga.spawn(lambda: world.import_module("try_slow").done) for _ in range(50)]
    assert len({id(d.result()) for d in found}) == 1


def test_several_os_threads_import_a_module_once(write: Write) -> None:
    write(
        try_slow="import time\ntime.sleep(0.02)\nimport try_part\ndone = [1]", try_part="import time; time.sleep(0.01)"
    )
    world, found = patched_imports("try_slow"), []
    threads = [threading.Thread(target=lambda: found.append(world.import_module("try_slow").done)) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(done) for done in found}) == 1 and len(found) == 10


def test_imports_in_a_circle_of_dhagas_do_not_lock(write: Write) -> None:
    write(
        try_a="import time\ntime.sleep(0.02)\nimport try_b",
        try_b="import time\ntime.sleep(0.02)\nimport try_a",
    )
    world = patched_imports("try_a")
    a, b = (d.result(timeout=60) for d in [dhaga.spawn(world.import_module, name) for name in ("try_a", "try_b")])
    assert a.try_b is b and b.try_a is a


def test_an_import_that_is_cancelled_can_be_made_again(write: Write) -> None:
    write(try_slow="import time\ntime.sleep(0.05)")
    world = patched_imports("try_slow")
    first = dhaga.spawn(world.import_module, "try_slow")
    dhaga.sleep(0.01)
    second = dhaga.spawn(world.import_module, "try_slow")
    dhaga.sleep(0.01)
    first.cancel()
    assert second.result() is world.modules["try_slow"]
    assert not world._loads.running and not world._loads.waiting
