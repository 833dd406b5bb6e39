"""Private copies of packages: what is copied, what is shared, and that nobody else sees it."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import importlib
import pathlib
import pickle
import sys
import sysconfig
import textwrap
import threading
import time
import traceback
import typing
from collections.abc import Callable, Iterator
from pkgutil import resolve_name
from types import ModuleType
from typing import Any

import pytest

import dhaga
from dhaga.faces import COPIES
from dhaga.imports import within
from dhaga.monkey import TABLE, patched_imports
from tests.scripts import prints

Write = Callable[..., None]


@pytest.fixture
def write(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Write modules, given as path and text, where they can be imported; what is imported publicly is forgotten."""
    monkeypatch.syspath_prepend(tmp_path)
    hook, modules = builtins.__import__, set(sys.modules)

    def write(**files: str) -> None:
        for path, text in files.items():
            place = tmp_path / f"{path.replace('__in__', '/')}.py"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(textwrap.dedent(text))
        importlib.invalidate_caches()

    yield write
    assert builtins.__import__ is hook
    for name in set(sys.modules) - modules:
        if name.startswith("try_"):
            del sys.modules[name]


def private(module: str, names: str) -> ModuleType:
    return patched_imports(names).import_module(module)


# ---- the block


def test_the_block_imports_a_private_copy_and_leaves_the_public_one(write: Write) -> None:
    write(try_one="import socket, threading, time")
    with patched_imports("try_one") as world:
        import try_one  # type: ignore[import-not-found]
    copy = try_one
    assert "try_one" not in sys.modules and repr(world) == "<World of try_one, 5 modules of its own>"
    import try_one

    assert sys.modules["try_one"] is try_one is not copy
    assert try_one.socket is sys.modules["socket"] and try_one.threading is threading and try_one.time is time
    assert copy.socket.socket is dhaga.socket.socket and copy.time.sleep is dhaga.time.sleep
    assert copy.threading.Thread is dhaga.threading.Thread is not threading.Thread
    with world:
        import try_one
    assert try_one is copy


WAITS = """
import asyncio, subprocess, threading
here = threading.Barrier(20)
async def main():
    return await asyncio.sleep(0.05, "slept")
def run():
    here.wait()
    return asyncio.run(main()), subprocess.check_output(["echo", "said"], text=True)
"""


@pytest.mark.parametrize("patch", ["", "monkey.patch()"])
def test_private_code_runs_loops_and_processes_in_a_patched_program_too(tmp_path: pathlib.Path, patch: str) -> None:
    (tmp_path / "try_waits.py").write_text(WAITS)
    code = f"""
        from dhaga import monkey
        {patch}
        import dhaga, sys
        sys.path.insert(0, {str(tmp_path)!r})
        with monkey.patched_imports("try_waits"):
            import try_waits
        print(*{{d.result() for d in [dhaga.spawn(try_waits.run) for _ in range(20)]}}, "try_waits" in sys.modules)
    """
    assert prints(code) == ["('slept', 'said\\n') False"]


@pytest.mark.parametrize("row", [row for row in TABLE if row.when], ids=lambda row: f"{row.module}: {row.names[0]}")
def test_within_a_world_the_names_of_the_table_are_ours(row: Any) -> None:
    world, ours = patched_imports("try_nothing"), resolve_name(row.ours)
    module, _, cls = row.module.partition(":")
    face = getattr(world.import_module(module), cls) if cls else world.import_module(module)
    assert [getattr(face, name) for name in row.names] == [getattr(ours, name) for name in row.names]
    public = resolve_name(row.module)
    assert not [name for name in row.names if getattr(public, name) is getattr(ours, name) and name != "SocketType"]


def test_what_the_table_leaves_is_shared() -> None:
    face = patched_imports("try_nothing").import_module("socket")
    public = importlib.import_module("socket")
    assert face.AF_INET is public.AF_INET and face.timeout is public.timeout and face.gaierror is public.gaierror
    queue = patched_imports("try_nothing").import_module("queue")
    assert queue.Empty is importlib.import_module("queue").Empty


def test_functions_of_a_face_use_what_is_replaced() -> None:
    world = patched_imports("try_nothing")
    context = world.import_module("ssl").create_default_context()
    assert type(context) is dhaga.ssl.SSLContext and isinstance(context, importlib.import_module("ssl").SSLContext)
    server = world.import_module("socketserver").TCPServer(("127.0.0.1", 0), None)
    assert type(server.socket) is dhaga.socket.socket
    server.server_close()


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
            import try_two  # type: ignore[import-not-found]
    assert outer.modules["try_one"] is try_one and inner.modules["try_two"] is try_two
    assert "try_two" not in outer.modules


def test_a_public_module_imported_in_the_block_gets_public_ones(write: Write) -> None:
    write(try_one="", try_user="import try_one")
    with patched_imports("try_one"):
        import try_one
        import try_user  # type: ignore[import-not-found]
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
    late = private("try_one", "try_one").late
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
        try_package__in____init__="from . import a\nfrom .a import b as b_of_a\n__all__ = ['a', 'd']",
        try_package__in__a="from . import b\nvalue = b.value",
        try_package__in__b="from . import a\nfrom .sub import c\nimport try_package.a as again\nvalue = a.__name__, c",
        try_package__in__sub__in____init__="",
        try_package__in__sub__in__c="from .. import b",
        try_package__in__d="",
        try_star="from try_package import *",
    )
    star = private("try_star", "try_star")
    package = star.a.b.again
    assert package is star.a and star.a.value == ("try_package.a", star.a.b.c) and star.d.__name__ == "try_package.d"
    assert not [name for name in sys.modules if name.startswith("try_")]


def test_a_circle_prefers_its_own_module_to_a_public_one(write: Write) -> None:
    write(
        try_package__in____init__="from . import a",
        try_package__in__a="from . import b",
        try_package__in__b="from . import a\nseen = a",
    )
    public = importlib.import_module("try_package")
    copy = private("try_package", "try_package")
    assert copy.a.b.seen is copy.a is not public.a


def test_what_cannot_be_found_is_not_found(write: Write) -> None:
    write(try_one="", try_bad="import try_missing", try_package__in____init__="from . import nowhere")
    world = patched_imports("try_missing", "try_one")
    with world, pytest.raises(ModuleNotFoundError, match="No module named 'try_missing'") as caught:
        import try_missing  # type: ignore[import-not-found] # noqa: F401
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
        try_package__in____init__="from . import part\nimport try_one\nif try_one.fails: raise ValueError",
        try_package__in__part="",
        try_one="fails = True",
    )
    world = patched_imports("try_package")
    with world, pytest.raises(ValueError):
        import try_package  # type: ignore[import-not-found]
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
    write(try_space__in__inner__in__module="value = 1", try_user="from try_space.inner import module")
    assert private("try_user", "try_user").module.value == 1
    assert "try_space" not in sys.modules


def test_a_module_is_run_again_in_its_place(write: Write, tmp_path: pathlib.Path) -> None:
    write(try_one="import importlib, socket, sys\ndef again(): return importlib.reload(sys.modules[__name__])")
    one = private("try_one", "try_one")
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
    by_c = private("try_one", "try_one").by_c
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
    assert private("try_one", "try_one").charset_normalizer is compiled
    assert private("charset_normalizer", "charset_normalizer") is not compiled
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
    a, b = (d.result(timeout=5) for d in [dhaga.spawn(world.import_module, name) for name in ("try_a", "try_b")])
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
    assert not world.loads.running and not world.loads.waiting


# ---- those that look for modules by name

CLASSES = """
    from __future__ import annotations
    import dataclasses, enum, inspect, pickle, typing
    from typing import ClassVar

    @dataclasses.dataclass
    class Point:
        x: int
        of: ClassVar[Point | None] = None

    class Colour(enum.Enum):
        RED = 1

    class Pair(typing.NamedTuple):
        a: Point
        b: Colour

    def hints(): return typing.get_type_hints(Pair)
    def source(): return inspect.getsource(Point), inspect.getmodule(Point)
    def there_and_back(): return pickle.loads(pickle.dumps(Pair(Point(1), Colour.RED)))
    def fails(): raise KeyError("text of it")
"""


def test_classes_find_their_module(write: Write) -> None:
    write(try_classes=CLASSES)
    module = private("try_classes", "try_classes")
    assert [field.name for field in dataclasses.fields(module.Point)] == ["x"]
    assert dataclasses.asdict(module.Point(1)) == {"x": 1}
    assert module.hints() == {"a": module.Point, "b": module.Colour}
    text, where = module.source()
    assert text.startswith("@dataclasses.dataclass\nclass Point:") and where is module
    assert typing.get_type_hints(module.fails) == {}


def test_pickles_are_made_and_read_within_and_name_the_public_classes(write: Write) -> None:
    write(try_classes=CLASSES)
    module = private("try_classes", "try_classes")
    pair = module.there_and_back()
    assert type(pair) is module.Pair and pair.b is module.Colour.RED and pair.a == module.Point(1)
    with pytest.raises(pickle.PicklingError):
        pickle.dumps(module.Point(1))
    assert module.pickle.PicklingError is pickle.PicklingError
    assert module.pickle.PickleBuffer is pickle.PickleBuffer
    public = pickle.loads(module.pickle.dumps(module.Point(1)))
    assert type(public) is importlib.import_module("try_classes").Point is not module.Point


def test_entry_points_load_within(write: Write, tmp_path: pathlib.Path) -> None:
    write(
        try_plugin="class Plugin:\n    pass",
        try_one="""
            from importlib.metadata import EntryPoint, entry_points
            def load():
                found, = entry_points(group="try_group")
                return found.load(), found.dist.name, isinstance(found, EntryPoint)
        """,
    )
    (tmp_path / "try_one-1.dist-info").mkdir()
    (tmp_path / "try_one-1.dist-info" / "METADATA").write_text("Name: try-one\nVersion: 1\n")
    (tmp_path / "try_one-1.dist-info" / "entry_points.txt").write_text("[try_group]\nname = try_plugin:Plugin\n")
    module = private("try_one", "try_one")
    plugin, name, known = module.load()
    assert (plugin.__name__, name, known) == ("Plugin", "try-one", True) and "try_plugin" not in sys.modules


def test_processes_start_private_functions_by_fork(tmp_path: pathlib.Path) -> None:
    (tmp_path / "try_fork.py").write_text(
        "import multiprocessing, threading, time\n"
        "def child(queue):\n"
        "    time.sleep(0.01)\n"
        "    queue.put(threading.Thread.__module__)\n"
        "def run():\n"
        "    context = multiprocessing.get_context('fork')\n"
        "    queue = context.Queue()\n"
        "    process = context.Process(target=child, args=(queue,))\n"
        "    process.start()\n"
        "    print(queue.get(), process.join(), process.exitcode)\n"
    )
    code = f"""
        import sys; sys.path.insert(0, {str(tmp_path)!r})
        from dhaga.monkey import patched_imports
        with patched_imports("try_fork"):
            import try_fork
        try_fork.run()
    """
    assert prints(code) == ["dhaga.threading None 0"]


def test_tracebacks_show_the_source(write: Write) -> None:
    write(try_classes=CLASSES)
    with pytest.raises(KeyError) as caught:
        private("try_classes", "try_classes").fails()
    assert 'raise KeyError("text of it")' in "".join(traceback.format_exception(caught.value))


def test_data_files_are_found(write: Write, tmp_path: pathlib.Path) -> None:
    write(
        try_package__in____init__="""
            import importlib.resources, pkgutil
            def read():
                files = importlib.resources.files("try_package")
                return files.joinpath("data.txt").read_text(), pkgutil.get_data("try_package", "data.txt"), __file__
        """
    )
    (tmp_path / "try_package" / "data.txt").write_text("data")
    read = private("try_package", "try_package").read
    assert read() == ("data", b"data", str(tmp_path / "try_package" / "__init__.py"))
    assert "try_package" not in sys.modules


def test_a_world_has_a_sys_of_its_own_that_writes_through(
    write: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "dhaga_trial", 1, raising=False)
    write(
        try_one="""
            import sys
            def change():
                sys.dhaga_trial += 1
                print("out", file=sys.stdout)
                return sys.exc_info(), "try_one" in sys.modules
        """
    )
    assert private("try_one", "try_one").change() == ((None, None, None), True)
    assert sys.dhaga_trial == 2 and capsys.readouterr().out == "out\n"  # type: ignore[attr-defined]


# ---- the standard library


def test_executors_of_a_world_have_dhagas(write: Write) -> None:
    write(
        try_pool="""
            import concurrent.futures, time
            from concurrent import futures
            from concurrent.futures import ThreadPoolExecutor, wait
            def run():
                with futures.ThreadPoolExecutor(100) as pool:
                    calls = [pool.submit(time.sleep, 0.05) for _ in range(100)]
                    done, left = wait(calls)
                    assert not left and list(futures.as_completed(calls)) and calls[0].result() is None
                    return list(pool.map(str, range(3))), type(pool._threads.pop())
        """
    )
    module, began = private("try_pool", "try_pool"), time.monotonic()
    answers, kind = module.run()
    assert answers == ["0", "1", "2"] and kind is dhaga.threading.Thread and time.monotonic() - began < 2
    assert (
        module.ThreadPoolExecutor is module.futures.ThreadPoolExecutor is module.concurrent.futures.ThreadPoolExecutor
    )
    assert issubclass(module.futures.Future, importlib.import_module("concurrent.futures").Future)
    assert importlib.import_module("concurrent.futures").ThreadPoolExecutor is not module.ThreadPoolExecutor


def test_servers_and_clients_of_the_standard_library_wait_together(write: Write) -> None:
    write(
        try_http="""
            import http.server, socketserver, threading, urllib.request, xmlrpc.client, xmlrpc.server
            count, all_here = 20, threading.Event()
            class Handler(http.server.BaseHTTPRequestHandler):
                here = []
                def do_GET(self):
                    self.here.append(1)
                    if len(self.here) == count:
                        all_here.set()
                    all_here.wait()
                    self.send_response(200)
                    self.end_headers()
                def log_message(self, *args): pass
            class Server(http.server.ThreadingHTTPServer):
                request_queue_size = 100
            def run():
                with Server(("127.0.0.1", 0), Handler) as server:
                    threading.Thread(target=server.serve_forever, args=(0.01,)).start()
                    url = f"http://127.0.0.1:{server.server_port}/"
                    answers = []
                    def get():
                        with urllib.request.urlopen(url) as answer:
                            answers.append(answer.status)
                    threads = [threading.Thread(target=get) for _ in range(count)]
                    for t in threads: t.start()
                    for t in threads: t.join()
                    server.shutdown()
                    return answers
        """
    )
    assert private("try_http", "try_http").run() == [200] * 20


HELD = "it holds its lock while it waits for nothing"
FOUND = "its classes and errors are found by those who are not in the world"
LOOPS = "its loops have ways to wait of their own"
PROCESSES = "its processes find its classes by their public names"
TOOL = "a tool, or what asks the system for a moment while something is imported"
URLS = "it opens an URL only where an XML parser was told to"

# Standard modules that use what the table replaces, or what is copied, and are shared all the same: why.
SHARED = {
    **dict.fromkeys(("_pyio", "_strptime", "_threading_local", "functools", "http.cookiejar", "sysconfig"), HELD),
    **dict.fromkeys(("reprlib", "tempfile", "unittest.mock", "zipfile"), HELD),
    **dict.fromkeys(("email.utils", "importlib.abc", "importlib.resources._adapters"), FOUND),
    **dict.fromkeys(("importlib.resources.readers", "uuid", "zoneinfo"), FOUND),
    **dict.fromkeys(("asyncio",), LOOPS),
    **dict.fromkeys(("concurrent.futures.process", "multiprocessing"), PROCESSES),
    **dict.fromkeys(("_aix_support", "_android_support", "_bootsubprocess", "_osx_support", "_pyrepl"), TOOL),
    **dict.fromkeys(("antigravity", "compileall", "ctypes", "imp", "pdb", "pickletools", "platform"), TOOL),
    **dict.fromkeys(("py_compile", "pyclbr", "pydoc", "runpy", "trace", "tracemalloc", "unittest"), TOOL),
    **dict.fromkeys(("xml.dom.xmlbuilder", "xml.sax.saxutils"), URLS),
}
FILES = {"io.open", "os.close", "os.read", "os.sendfile", "os.write"}
"""They wait for files only where these are none but pipes and sockets."""
CALLS = {f"subprocess.{name}" for name in ("call", "check_call", "check_output", "getoutput", "getstatusoutput", "run")}

LIBRARY = pathlib.Path(sysconfig.get_path("stdlib"))
NO_PROGRAMS_IMPORT = ("config-", "distutils", "ensurepip", "idlelib", "lib-dynload", "lib2to3", "pydoc_data", "site-")
NO_PROGRAMS_IMPORT += ("test", "tkinter", "turtle", "venv", "__pycache__")


def standard_modules() -> dict[str, pathlib.Path]:
    paths = {path: path.relative_to(LIBRARY).with_suffix("").parts for path in LIBRARY.rglob("*.py")}
    return {
        ".".join(parts).removesuffix(".__init__"): path
        for path, parts in paths.items()
        if not parts[0].startswith(NO_PROGRAMS_IMPORT) and not {"test", "tests"} & {*parts}
    }


def used_by(name: str, path: pathlib.Path) -> Iterator[str]:
    """Return what a module imports, and of what it imports that it uses: ``socket.socket``, ``http.client``."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    aliases: dict[str, str] = {}
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            aliases |= {alias.asname or alias.name.split(".")[0]: alias.name for alias in node.names}
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*above, *([node.module] if node.module else [])])
            yield from (source, *(f"{source}.{alias.name}" for alias in node.names))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases:
            yield f"{aliases[node.value.id]}.{node.attr}"


@pytest.mark.once
def test_every_standard_module_that_waits_is_copied_or_shared_for_a_reason() -> None:
    table = {f"{row.module}.{name}" for row in TABLE for name in row.names}
    faces, waits = patched_imports("try_nothing").library.makers, (table - FILES) | CALLS | COPIES
    users = {name for name, path in standard_modules().items() if waits & {*used_by(name, path)}}
    without = {name for name in users - COPIES - {*faces} if not within(name, SHARED)}
    assert not without
