"""The standard library as private copies see it: what of it is theirs, and what is shared."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import pathlib
import pickle
import sys
import sysconfig
import traceback
import typing
from collections.abc import Iterator
from pkgutil import resolve_name
from typing import Any

import pytest

import dhaga
import dhaga.ssl
from dhaga.monkey import TABLE, patched_imports
from dhaga.monkey._private_imports import within
from dhaga.monkey._private_stdlib import COPIES
from tests.kit.private_modules import Write, private, written
from tests.kit.scripts import prints


@pytest.fixture
def write(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    with written(tmp_path, monkeypatch) as write:
        yield write


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
    module = private("try_classes")
    assert [field.name for field in dataclasses.fields(module.Point)] == ["x"]
    assert dataclasses.asdict(module.Point(1)) == {"x": 1}
    assert module.hints() == {"a": module.Point, "b": module.Colour}
    text, where = module.source()
    assert text.startswith("@dataclasses.dataclass\nclass Point:") and where is module
    assert typing.get_type_hints(module.fails) == {}


def test_pickles_are_made_and_read_within_and_name_the_public_classes(write: Write) -> None:
    write(try_classes=CLASSES)
    module = private("try_classes")
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
    module = private("try_one")
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
        private("try_classes").fails()
    assert 'raise KeyError("text of it")' in "".join(traceback.format_exception(caught.value))


def test_data_files_are_found(write: Write, tmp_path: pathlib.Path) -> None:
    write(
        {
            "try_package/__init__": """
            import importlib.resources, pkgutil
            def read():
                files = importlib.resources.files("try_package")
                return files.joinpath("data.txt").read_text(), pkgutil.get_data("try_package", "data.txt"), __file__
        """
        }
    )
    (tmp_path / "try_package" / "data.txt").write_text("data")
    read = private("try_package").read
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
    assert private("try_one").change() == ((None, None, None), True)
    assert sys.dhaga_trial == 2 and capsys.readouterr().out == "out\n"  # type: ignore[attr-defined]


# ---- the standard library


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


def test_executors_of_a_world_have_dhagas(write: Write) -> None:
    write(
        try_pool="""
            import concurrent.futures, time
            from concurrent import futures
            from concurrent.futures import ThreadPoolExecutor, wait
            asleep, most = [], []
            def sleep():
                asleep.append(1)
                most.append(len(asleep))
                time.sleep(0.05)
                asleep.pop()
            def run():
                with futures.ThreadPoolExecutor(100) as pool:
                    calls = [pool.submit(sleep) for _ in range(100)]
                    done, left = wait(calls)
                    assert not left and list(futures.as_completed(calls)) and calls[0].result() is None
                    return list(pool.map(str, range(3))), max(most), type(pool._threads.pop())
        """
    )
    module = private("try_pool")
    answers, most_asleep, kind = module.run()
    assert answers == ["0", "1", "2"] and most_asleep > 1 and kind is dhaga.threading.Thread
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
    assert private("try_http").run() == [200] * 20


HELD = "it holds its lock while it waits for nothing"
FOUND = "its classes and errors are found by those who are not in the world"
LOOPS = "its loops have ways to wait of their own"
PROCESSES = "its processes find its classes by their public names"
TOOL = "a tool, or what asks the system for a moment while something is imported"
URLS = "it opens an URL only where an XML parser was told to, or none: pathlib makes one of a path"

# Standard modules that use what the table replaces, or what is copied, and are shared all the same: why.
SHARED = {
    **dict.fromkeys(
        ("_py_warnings", "_pyio", "_strptime", "_threading_local", "functools", "http.cookiejar", "sysconfig"), HELD
    ),
    **dict.fromkeys(("reprlib", "tempfile", "unittest.mock", "zipfile"), HELD),
    **dict.fromkeys(("email.utils", "importlib.abc", "importlib.resources._adapters"), FOUND),
    **dict.fromkeys(("importlib.resources.readers", "traceback", "uuid", "zoneinfo"), FOUND),
    **dict.fromkeys(("asyncio",), LOOPS),
    **dict.fromkeys(("concurrent.futures.process", "multiprocessing"), PROCESSES),
    **dict.fromkeys(("concurrent.futures.interpreter", "concurrent.interpreters"), PROCESSES),
    **dict.fromkeys(("_aix_support", "_android_support", "_bootsubprocess", "_osx_support", "_pyrepl"), TOOL),
    **dict.fromkeys(("bdb", "cProfile", "linecache", "profiling", "site"), TOOL),
    **dict.fromkeys(("antigravity", "compileall", "ctypes", "imp", "pdb", "pickletools", "platform"), TOOL),
    **dict.fromkeys(("py_compile", "pyclbr", "pydoc", "runpy", "trace", "tracemalloc", "unittest"), TOOL),
    **dict.fromkeys(("pathlib", "xml.dom.xmlbuilder", "xml.sax.saxutils"), URLS),
}
FILES = {"builtins.open", "io.open", "os.close", "os.fdopen", "os.open", "os.read", "os.sendfile", "os.write"}
"""They wait for files only where these are none but pipes and sockets."""
CALLS = {f"subprocess.{name}" for name in ("call", "check_call", "check_output", "getoutput", "getstatusoutput", "run")}

LIBRARY = pathlib.Path(sysconfig.get_path("stdlib"))
NO_PROGRAMS_IMPORT = ("config-", "distutils", "ensurepip", "idlelib", "lib-dynload", "lib2to3", "pydoc_data", "site-")
NO_PROGRAMS_IMPORT += ("test", "tkinter", "turtle", "venv", "__pycache__")


def standard_modules() -> dict[str, pathlib.Path]:
    paths = {path: path.relative_to(LIBRARY).with_suffix("").parts for path in LIBRARY.rglob("*.py") if path.exists()}
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
    faces, waits = patched_imports("try_nothing")._stdlib.makers, (table - FILES) | CALLS | COPIES
    users = {name for name, path in standard_modules().items() if waits & {*used_by(name, path)}}
    without = {name for name in users - COPIES - {*faces} if not within(name, SHARED)}
    assert not without
