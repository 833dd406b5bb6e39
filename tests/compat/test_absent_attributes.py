"""Each public attribute of gevent's and eventlet's classes (``names.json``) is here, or is listed with the reason."""

from __future__ import annotations

from collections import defaultdict

import pytest

from tests.kit.scripts import prints

pytestmark = pytest.mark.once  # the names were recorded on the main Python

BY_HAND = "affected_rows autocommit begin change_user character_set_name commit cursor dump_debug_info errno error"
BY_HAND += " errorhandler get_server_info insert_id literal ping query rollback select_db server_capabilities"
BY_HAND += " set_character_set set_isolation_level set_server_option set_sql_mode show_warnings shutdown sqlstate stat"
BY_HAND += " store_result string_literal thread_id use_result warning_count"
HUB = "SYSTEM_EXCEPTIONS add_timer block_detect_post block_detect_pre close_one default_sleep fire_timers"
HUB += " mark_as_reopened prepare_timers remove_descriptor set_debug_listeners set_timer_exceptions sleep_until"
HUB += " squelch_exception squelch_generic_exception squelch_timer_exception timer_canceled wait"
OF_LOOPS = "MAXPRI MINPRI WatcherType activecnt approx_timer_resolution async async_ backend backend_int break_ check"
OF_LOOPS += " child closing_fd default depth destroy error_handler fileno fork handle_error idle install_sigchld io"
OF_LOOPS += " iteration now origflags origflags_int pendingcnt prepare ptr ref reinit reset_sigchld run run_callback"
OF_LOOPS += " run_callback_threadsafe sig_pending sigfd signal stat timer unref update update_now verify"

ABSENT: dict[str, dict[str, dict[str, str]]] = {
    "gevent": {
        "gevent.get_hub() returns the thread's": {
            **dict.fromkeys(("AsyncResult", "DefaultSelector", "Event", "GeventSelector", "LoopExit"), "hub"),
            **dict.fromkeys(("JoinableQueue", "LifoQueue", "PriorityQueue", "Queue", "SimpleQueue"), "hub"),
        },
        "libev's loop and watchers: there is one loop, and a socket is no watcher": {
            "loop": OF_LOOPS,
            "Hub": "backend cancel_wait cancel_waits_close_and_then ident_registry loop_class main_hub"
            " periodic_monitoring_thread resolver resolver_class run start_periodic_monitoring_thread switch_out"
            " thread_ident threadpool_class",
            "SSLSocket": "closed hub ref",
            "signal": "greenlet_class ref",
            "signal_handler": "greenlet_class ref",
            "socket": "closed hub ref",
            "SocketType": "closed hub ref",
        },
        "inner parts: of how gevent waits, hands over and runs": {
            "Channel": "getters hub putters",
            "LockType": "counter hub linkcount rawlink ready unlink wait",
            "ThreadPool": "fork_watcher hub manager pid",
            "ThreadResult": "async_watcher context destroy_in_main_thread handle_error hub receiver set",
            "Waiter": "exc_info greenlet",
            "allocate_lock": "counter hub linkcount rawlink ready unlink wait",
            "lock": "counter hub linkcount rawlink ready unlink wait",
        },
        "a function that returns a file of dhaga.io, which has the standard names": {
            "FileObject": "close closed default_bufsize io next",
            "FileObjectBlock": "close closed io next",
            "FileObjectPosix": "close closed default_bufsize io next",
            "FileObjectThread": "close closed io next",
        },
        "setuptools' entry points of gevent's plugins, which are not loaded": dict.fromkeys(
            (
                *("GeventDidPatchAllEvent", "GeventDidPatchBuiltinModulesEvent", "GeventDidPatchModuleEvent"),
                *("GeventWillPatchAllEvent", "GeventWillPatchModuleEvent"),
            ),
            "ENTRY_POINT_NAME",
        ),
        "of Python 2": {"Environ": "iteritems", "Popen": "pipe_cloexec", "SecureEnviron": "iteritems"},
        "of the standard library's parser, which reads no requests here": {
            "WSGIHandler": "MessageClass ignored_socket_errors"
        },
    },
    "eventlet": {
        "by __getattr__, whatever the connection has": {
            "GenericConnectionWrapper": f"{BY_HAND} close",
            "PooledConnectionWrapper": BY_HAND,
        },
        "inner parts of eventlet's hubs: the IOLoop is the hub": {
            "BaseHub": HUB,
            "Hub": f"{HUB} do_poll register MAX_EVENTS",
        },
        "inner parts: of eventlet's start of a greenthread, and of its queues": {
            "GreenThread": "main",
            **dict.fromkeys(("LifoQueue", "PriorityQueue", "Queue"), "getting putting resize"),
        },
        "of the standard module's class, or of the semaphore that is eventlet's Lock": {
            "Lock": "balance bounded",
            "MozillaCookieJar": "header",
            "Profile": "SwitchTasklet TallyTimings Unwind base start stop trace_dispatch_c_return_extend_back"
            " trace_dispatch_return_extend_back",
        },
        "of Python 2": {"GreenSocket": "makeGreenFile", "socket": "makeGreenFile"},
        "of the drafts of WebSocket before version 13": {"WebSocket": "close send wait"},
    },
}
"""By package: reasons, and the attributes of classes that are missing for it."""

LOOK = """
    import ast, functools, json, sys, warnings
    from importlib import import_module
    import dhaga.compat
    from dhaga.compat._absent import AbsentError, Refused
    warnings.simplefilter("ignore")
    dhaga.compat.install("{package}")

    @functools.cache
    def classes_of(file):
        "Return the names that each class of a file reads or sets on self."
        tree = ast.parse(open(file).read())
        return {{
            kind.name: {{
                each.attr
                for each in ast.walk(kind)
                if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id == "self"
            }}
            for kind in ast.walk(tree)
            if isinstance(kind, ast.ClassDef)
        }}

    def of_objects(kind):
        found = set()
        for base in getattr(kind, "__mro__", ()):
            file = getattr(sys.modules.get(base.__module__), "__file__", None) or ""
            if file.endswith(".py"):
                found |= classes_of(file).get(base.__name__, set())
        return found

    for package, modules in json.load(open("tests/compat/names.json")).items():
        for module, kinds in modules.items() if package.startswith("{package} ") else ():
            try:
                found = import_module(module)
            except AbsentError:
                continue
            for name, attributes in kinds.items():
                kind = getattr(found, name, None) if name else None
                if kind is None or isinstance(kind, Refused):
                    continue
                own = of_objects(kind)
                missing = [each for each in attributes.split() if not hasattr(kind, each) and each not in own]
                print(name, len(attributes.split()), *missing)
"""


@pytest.mark.parametrize("package", ["gevent", "eventlet"])
def test_each_public_attribute_of_a_class_is_here_or_is_listed(package: str) -> None:
    missing: defaultdict[str, set[str]] = defaultdict(set)
    looked_at = 0
    for line in prints(LOOK.format(package=package)):
        kind, count, *names = line.split()
        looked_at += int(count)
        missing[kind].update(names)
    listed = {kind: set(names.split()) for kinds in ABSENT[package].values() for kind, names in kinds.items()}
    assert looked_at > 500
    assert {kind: names for kind, names in missing.items() if names} == listed
