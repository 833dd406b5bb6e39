"""The standard's own functions and classes in the ``__all__`` of a face: each reaches dhagas, or concerns no thread."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator

import pytest

import dhaga
from dhaga import socket, threading
from dhaga.testing import virtual_clock

STANDARD = {"thread": "_thread", "futures": "concurrent.futures"}
"""By face, where the standard module has another name."""

FACES = (
    *("asyncio", "futures", "io", "os", "queue", "select", "selectors", "signal", "socket", "ssl", "subprocess"),
    *("thread", "threading", "time"),
)

WITHOUT_THREADS = {
    "socket": {
        *("CMSG_LEN", "CMSG_SPACE", "SocketType", "close", "dup", "gethostname", "getprotobyname", "getservbyname"),
        *("getservbyport", "has_dualstack_ipv6", "htonl", "htons", "if_indextoname", "if_nameindex", "if_nametoindex"),
        *("inet_aton", "inet_ntoa", "inet_ntop", "inet_pton", "ntohl", "ntohs", "recv_fds", "send_fds", "sethostname"),
    },
    "ssl": {
        *("DER_cert_to_PEM_cert", "MemoryBIO", "PEM_cert_to_DER_cert", "RAND_add", "RAND_bytes", "RAND_status"),
        *("SSLObject", "SSLSession", "cert_time_to_seconds", "get_default_verify_paths", "get_protocol_name"),
        *("RAND_pseudo_bytes", "get_sigalgs", "match_hostname"),
    },
    "threading": {"get_native_id", "stack_size"},
}
"""They only compute or ask the system, call methods of the socket that they are given, or concern OS threads."""


def of_the_standard(face: str) -> Iterator[str]:
    """Return the functions and classes of a face that are the standard's, errors and constants aside."""
    ours = importlib.import_module(f"dhaga.{face}")
    its = importlib.import_module(STANDARD.get(face, face))
    for name in getattr(ours, "__all__", ()):
        value = getattr(ours, name)
        kind = value if isinstance(value, type) else type(value)
        if callable(value) and value is getattr(its, name, None) and not issubclass(kind, (BaseException, tuple, int)):
            yield name


def settrace() -> bool:
    return reaches(threading.settrace, threading.gettrace)


def setprofile() -> bool:
    return reaches(threading.setprofile, threading.getprofile)


def reaches(set_it: Callable[[object], None], get_it: Callable[[], object]) -> bool:
    """Return whether a function that threads begin with sees the code of one."""
    seen: list[str] = []

    def work() -> None:
        dhaga.sleep(0)

    def function(frame: object, event: str, arg: object) -> object:
        if frame.f_code is work.__code__:  # type: ignore[attr-defined]
            seen.append(event)
        return function

    set_it(function)
    thread = threading.Thread(target=work)
    try:
        assert get_it() is function
        thread.start()
    finally:
        set_it(None)
    thread.join()
    return seen[0] == "call" and seen[-1] == "return"


def excepthook() -> bool:
    seen: list[object] = []
    before, threading.excepthook = threading.excepthook, seen.append
    try:
        thread = threading.Thread(target=lambda: 1 / 0)
        thread.start()
        thread.join()
    finally:
        threading.excepthook = before
    return [args.thread for args in seen] == [thread]  # type: ignore[attr-defined]


def setdefaulttimeout() -> bool:
    socket.setdefaulttimeout(3)
    try:
        ours, other = socket.socketpair()
    finally:
        socket.setdefaulttimeout(None)
    with ours, other:
        try:
            dhaga.spawn(ours.recv, 1).result()
        except TimeoutError:
            return ours.gettimeout() == 3
    return False


EFFECTS: dict[str, dict[str, Callable[[], bool]]] = {
    "socket": {"getdefaulttimeout": setdefaulttimeout, "setdefaulttimeout": setdefaulttimeout},
    "threading": {
        "excepthook": excepthook,
        "getprofile": setprofile,
        "gettrace": settrace,
        "setprofile": setprofile,
        "settrace": settrace,
    },
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("face", FACES)
def test_each_standard_function_of_a_face_is_in_a_table(face: str) -> None:
    known = WITHOUT_THREADS.get(face, set()) | EFFECTS.get(face, {}).keys()
    assert {*of_the_standard(face)} <= known | {"namedtuple"}


@pytest.mark.parametrize("effect", [settrace, setprofile, excepthook, setdefaulttimeout])
def test_its_effect_reaches_a_dhaga(effect: Callable[[], bool]) -> None:
    former = sys.gettrace(), sys.getprofile()
    with virtual_clock():
        assert effect()
    assert (sys.gettrace(), sys.getprofile()) == former
