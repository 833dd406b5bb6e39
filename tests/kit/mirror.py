"""Finds the files of tests/ that test a module of dhaga/.

tests/ mirrors dhaga/. The district of a module is the first folder below dhaga/. ``dhaga/x/_y/z.py`` is tested by
``tests/x/test_z*.py`` or ``tests/x/_y/test_z*.py``; a face, ``dhaga/x.py`` or ``dhaga/x/__init__.py``, by
``tests/test_x*.py``, or in its district.

``python -m tests.kit.mirror _sync/lock`` prints the files of one module, for ``make check MODULE=…``.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted(path.relative_to(ROOT / "dhaga") for path in (ROOT / "dhaga").rglob("*.py"))
FOLDERS = {path.parent for path in MODULES}
FILES = sorted(
    path.relative_to(ROOT / "tests") for folder in FOLDERS for path in (ROOT / "tests" / folder).glob("test_*.py")
)
"""The test files. Those in other folders (scenarios, kit, examples, benchmarks, …) test no single module."""

SCENARIOS = sorted(path.relative_to(ROOT / "tests") for path in (ROOT / "tests/scenarios").glob("test_*.py"))

WITHOUT_TESTS = {
    "_cli/top_terminal.py": "shown by tests/_cli/test_top.py",
    "_cli/top_table.py": "drawn by tests/_cli/test_top.py and test_top_screen.py",
    "_kernel/api.py": "by test_microthread.py, test_waiter.py and test_current.py: spawn, park and current",
    "_kernel/run/scheduler_state.py": "slots and their first values: by test_scheduler.py",
    "_kernel/process/preemption_events.py": "by test_preemption.py: they end the turns there",
    "_kernel/process/victims.py": "by test_testing.py: its functions use them",
    "_kernel/process/preemption_watcher.py": "by test_preemption.py: it finds the turns that are ended there",
    "_kernel/run/attachment.py": "by test_run_modes.py and test_run_modes_guest.py",
    "_kernel/run/call_outs.py": "by test_preemption.py: where a turn may end",
    "_kernel/run/running_loop.py": "by tests/test_asyncio.py: what a thread shows while loops run",
    "_kernel/run/future_joiner.py": "by tests/test_asyncio.py: coroutines that await dhagas",
    "_kernel/run/handed_over.py": "by tests/test_queue.py: what qsize() counts",
    "_sync/inner_condition.py": "by test_event.py and test_semaphore.py",
    "_kernel/run/thread_local_refs.py": "by tests/_sync/test_local.py",
    "_sync/active_threads.py": "by test_thread_legacy.py and tests/test_threading.py",
    "_sync/thread_attributes.py": "by tests/test_threading.py",
    "_sync/queue_items.py": "by tests/test_queue.py",
    "monkey/_sitecustomize/sitecustomize.py": "run by tests/monkey/test_early.py",
    "monkey/_standard_bases.py": "by tests/monkey/test_standard_names.py: the Barrier of multiprocessing",
    "_kernel/hooks.py": "a table of names; each hook is called in the tests of its listener",
    "_pytest_entry/_dhaga_pytest.py": "by tests/test_pytest_plugin.py and tests/scenarios/test_startup.py",
    "_iowait/accept_errors.py": "by tests/servers/test_tcp.py and tests/compat/test_wsgi_eventlet.py",
    "_iowait/socket_sendfile.py": "by tests/test_socket_stream.py, which sends files",
    "_iowait/tls_waits.py": "by tests/test_ssl.py and test_ssl_trouble.py",
    "_workers/future.py": "by tests/test_futures.py: its face, dhaga.futures, exports it",
    "aio/_task_session.py": "by tests/aio/test_async_with.py and test_async_for.py",
    "aio/_sqlalchemy.py": "by tests/scenarios/test_asyncio_libraries.py, with the real SQLAlchemy",
    "compat/_shared/body_file.py": "by test_http_input.py and test_wsgi_input_gevent.py",
    "compat/_shared/delayed_start.py": "by test_greenlet_gevent.py and test_greenthread.py",
    "compat/_shared/prompt.py": "by tests/compat/test_backdoor_eventlet.py and test_backdoor_gevent.py",
    "compat/_shared/tls.py": "by test_server_gevent.py and test_convenience.py",
    "compat/eventlet/_connection_files.py": "by test_http_protocol.py and test_wsgi_eventlet.py",
    "compat/eventlet/_settings.py": "set by debug.py, and seen in test_greenthread.py and test_tpool.py",
    "compat/eventlet/asyncio.py": "small: by tests/compat/test_eventlet.py",
    "compat/eventlet/corolocal.py": "small: by tests/compat/test_eventlet.py",
    "compat/eventlet/debug.py": "small: by tests/compat/test_eventlet.py",
    "compat/eventlet/greenio.py": "small: by tests/compat/test_eventlet.py",
    "compat/eventlet/green/ssl.py": "by tests/compat/test_finder.py",
    "compat/eventlet/support/_errors.py": "small: by tests/compat/test_eventlet.py",
    "compat/eventlet/support/greenlets.py": "small: by tests/compat/test_eventlet.py",
    "integrations/zmq/_context.py": "by test_zmq.py: what a program does with a context, its sockets and its proxies",
    "integrations/zmq/_install.py": "by test_zmq.py",
    "integrations/zmq/_poll.py": "by test_zmq.py",
    "integrations/zmq/_proxy.py": "by test_zmq.py",
    "integrations/zmq/_socket.py": "by test_zmq.py",
    "compat/gevent/_interfaces.py": "other names, which test_interfaces_are_the_classes in test_hub_gevent.py compares",
    "compat/gevent/builtins.py": "the standard ones: by test_absent.py",
    "compat/gevent/contextvars.py": "the standard ones: by test_absent.py",
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
    "servers/_service.py": "by test_worker_process.py and test_one_process.py, whose common part it is",
    "servers/_signal_pipe.py": "by tests/servers/test_prefork.py, which sends signals to the master",
    "monkey/_patch_table.py": "by tests/monkey/test_patcher.py, which compares each row with both modules",
    "simulation/network/_datagrams.py": "by test_network.py: what programs see of them",
    "simulation/network/_end.py": "by test_network.py: what programs see of them",
    "simulation/network/_installed.py": "by test_network.py: what programs see of it",
    "simulation/network/_killed.py": "by test_hosts.py: what the peers of a killed host see",
    "simulation/network/_link.py": "by test_network.py: what programs see of it",
    "simulation/network/_listening.py": "by test_network.py: what programs see of it",
    "simulation/network/_partition.py": "by test_network.py: what programs see of it",
    "simulation/network/_wire.py": "by test_network.py: what programs see of it",
    "_kernel/outside.py": "by tests/simulation/test_standard.py: a simulation sets nothing else of Dhaga",
    "simulation/_schedule/simulated_queue.py": "by test_run.py and test_points.py: the order of members",
    "simulation/_schedule/source_line.py": "by test_report.py and test_points.py: what a report shows of a line",
    "simulation/_base/here.py": "by test_unsimulated.py and test_world.py: other OS threads, one at a time",
    "simulation/_base/part.py": "by test_network.py and test_disk.py, whose draws and events these are",
    "simulation/_base/pause.py": "by test_offload.py and test_disk.py, whose calls take a virtual time",
    "simulation/_base/ranges.py": "by test_faults.py and test_disk.py, which give wrong ones",
    "simulation/disk/_active.py": "by test_audit.py: its errors",
    "simulation/disk/_disks.py": "by test_disk.py and test_tree.py: what programs see of them",
    "simulation/disk/_inodes.py": "by test_tree.py, which compares them with real ones",
    "simulation/disk/_installed.py": "by test_files.py: what programs see of it",
    "simulation/disk/_naming.py": "by test_files.py and test_tree.py: the functions of os for names",
    "simulation/disk/_real.py": "by test_tree.py: the calls behind it",
    "simulation/disk/_survival.py": "by test_disk.py: what a kill leaves",
    "simulation/disk/_writing.py": "by test_files.py and test_disk.py: the functions of os for fds",
    "simulation/_base/errors.py": "raised in test_world.py, test_unsimulated.py and test_determinism.py",
    "debug/_remote/ended.py": "by test_loopback.py and test_socket_path.py: what the killed have left",
    "debug/_remote/endpoint.py": "by test_loopback.py and test_socket_path.py: each platform's",
    "debug/_remote/not_answered.py": "raised in test_client.py and test_loopback.py",
    "debug/_remote/unix_socket.py": "by test_client.py and test_socket_path.py: who may ask, and who is asked",
    "debug/_helper_thread.py": "by tests/debug/test_thread_server.py and test_watchdog.py, whose threads these are",
}
"""Modules that test files with other names exercise. Each ``test_x.py`` in a text is one of these files."""


@cache
def names_of(module: Path) -> set[tuple[str, str]]:
    """Return, for the files that may test a module, their folders below tests/ and the beginnings of their names."""
    district = module.parts[0] if len(module.parts) > 1 else "."
    if module.name != "__init__.py":
        return {(folder, module.stem.strip("_")) for folder in (district, str(module.parent))}
    face = module.parent.name
    return {(".", face), (district, face)}


def is_named_so(file: Path, names: set[tuple[str, str]]) -> bool:
    folder, subject = place_of(file)
    return any(folder == each and subject.startswith(f"{name}_") for each, name in names)


@cache
def place_of(file: Path) -> tuple[str, str]:
    """Return a file's folder below tests/, and the file's subject followed by an underscore."""
    return str(file.parent), f"{file.stem.removeprefix('test_')}_"


def tests_of(module: Path) -> list[Path]:
    """Return the files that test a module: those of its name, or else those that ``WITHOUT_TESTS`` names."""
    own = [file for file in FILES if is_named_so(file, names_of(module))]
    if own:
        return own
    named = re.findall(r"test_\w+\.py", WITHOUT_TESTS.get(str(module), ""))
    return [file for file in FILES + SCENARIOS if file.name in named]


def main(argument: str) -> None:
    """Print the files that test a module, or all modules of a folder, given by its path below dhaga/."""
    path = Path(argument.removeprefix("dhaga/").removesuffix("/"))
    modules = [each for each in MODULES if path in (each, each.with_suffix(""), *each.parents)]
    if not modules:
        sys.exit(f"no module dhaga/{path}.py: give its path below dhaga/, as in make check MODULE=_sync/lock")
    files = {f"tests/{file}" for module in modules for file in tests_of(module)}
    print(*sorted(files) or ["tests/test_mirror.py"])


if __name__ == "__main__":
    main(sys.argv[1])
