"""The functions of ``os``, ``io`` and ``builtins`` that take a file or an fd, by how they wait in a patched program.

A case is a call that must wait, and an action that ends the wait. The case runs in a program that is patched without
preemption, so that the dhaga that ends the wait runs only once the caller has parked.
"""

from __future__ import annotations

import builtins
import inspect
import io
import os
from collections.abc import Iterator
from types import ModuleType

PARKS = {
    "os.read": "until there is something to read",
    "os.readv": "until there is something to read",
    "os.readinto": "until there is something to read",
    "os.write": "until all is written",
    "os.writev": "until all is written",
    "os.sendfile": "until all bytes are sent to a socket in blocking mode; to a pipe, until some are",
    "os.splice": "until some bytes could be moved",
    "os.eventfd_read": "while the counter is 0",
    "os.eventfd_write": "while the counter is full",
    "os.open": "in an OS thread, while the other end of a FIFO is closed",
    "os.fdopen": "never; the file's operations park",
    "builtins.open": "in an OS thread, while the other end of a FIFO is closed; the file's operations park",
    "io.open": "as `builtins.open`",
    "builtins.input": "until the first key or line",
}
"""Functions that park, and when."""

BLOCKS = {
    "io.FileIO": "over a pipe, FIFO, socket or terminal: it is the class that C code uses; use `open`",
    "io.open_code": "of a FIFO: imports use it; use `open`",
    "os.lockf": "while another process holds the lock: offload it",
    "builtins.print": "to a standard output whose reader is slow: C writes it",
}
"""Functions that block the OS thread, and when."""

SPAWNS = {f"spawn{suffix}" for suffix in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")}
"""Functions that park in ``waitpid``. They are tested by the tests of child processes."""

DISK_OR_NOTHING = """
    access chdir chflags chmod chown chroot close copy_file_range device_encoding dup dup2 fchdir fchmod
    fchown fdatasync fpathconf fsdecode fsencode fspath fstat fstatvfs fsync ftruncate fwalk get_blocking
    get_inheritable get_terminal_size getxattr grantpt isatty lchflags lchmod lchown link listdir listdrives
    listxattr login_tty lseek lstat makedirs mkdir mkfifo mknod pathconf posix_fadvise posix_fallocate
    posix_spawn posix_spawnp pread preadv ptsname pwrite pwritev readlink remove removexattr rename replace
    rmdir scandir set_blocking set_inheritable setns setxattr stat statvfs statx symlink tcgetpgrp tcsetpgrp
    timerfd_gettime timerfd_gettime_ns timerfd_settime timerfd_settime_ns truncate ttyname unlink unlockpt
    utime walk
"""

NEVER_WAIT = {
    "os": SPAWNS
    | {f"exec{suffix}" for suffix in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")}
    | set(DISK_OR_NOTHING.split()),
    "io": set(),
    "builtins": {"compile"},
}
"""Functions that wait for a disk or not at all, and ``SPAWNS``."""

FILES = {"child_fd", "fd", "fd1", "fd2", "file", "filename", "fildes", "in_fd", "out_fd", "path", "src", "dst"}
"""Names of parameters that are files."""

MODULES = (os, io, builtins)


def functions_of_files() -> Iterator[str]:
    """Yield the functions of this Python that have a file among their parameters."""
    for module in MODULES:
        for name, value in inspect.getmembers(module, callable):
            if not name.startswith("_") and FILES & parameters(value):
                yield f"{module.__name__}.{name}"


def parameters(function: object) -> set[str]:
    """Return the names of a function's parameters, as far as its signature shows them."""
    try:
        return set(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return set()


def is_known(name: str) -> bool:
    """Return whether a table contains a function."""
    module, _, function = name.partition(".")
    return name in PARKS or name in BLOCKS or function in NEVER_WAIT[module]


def exists(name: str, modules: tuple[ModuleType, ...] = MODULES) -> bool:
    """Return whether this Python has a function."""
    return any(
        name == f"{module.__name__}.{name.partition('.')[2]}" and hasattr(module, name.partition(".")[2])
        for module in modules
    )


# ---- cases

PROLOGUE = """
import dhaga.monkey
dhaga.monkey.patch(cooperative=True)
import dhaga, io, os, pty, socket, tempfile

folder = tempfile.mkdtemp()
paths = iter(os.path.join(folder, str(number)) for number in range(1000))
keep = []

def fifo():
    path = next(paths)
    os.mkfifo(path)
    return path

# Each returns an fd that waits, and a function that ends the wait.
def empty_pipe():
    reader, writer = os.pipe()
    return reader, lambda: os.write(writer, b"x" * 8 + b"\\n")

def empty_fifo():
    path = fifo()
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reader, True)
    writer = os.open(path, os.O_WRONLY)
    return reader, lambda: os.write(writer, b"x" * 8 + b"\\n")

def empty_socket():
    ours, theirs = socket.socketpair()
    keep.extend((ours, theirs))
    return ours.fileno(), lambda: theirs.send(b"x" * 8 + b"\\n")

def empty_pty():
    theirs, ours = pty.openpty()
    return ours, lambda: os.write(theirs, b"x" * 8 + b"\\n")

def empty_eventfd():
    fd = os.eventfd(0)
    return fd, lambda: os.eventfd_write(fd, 1)

def fill(fd):
    os.set_blocking(fd, False)
    try:
        while True: os.write(fd, b"f" * 4096)
    except BlockingIOError:
        os.set_blocking(fd, True)

def full_pipe():
    reader, writer = os.pipe()
    fill(writer)
    return writer, lambda: os.read(reader, 1 << 20)

def full_fifo():
    path = fifo()
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(path, os.O_WRONLY)
    fill(writer)
    return writer, lambda: os.read(reader, 1 << 20)

def full_socket():
    ours, theirs = socket.socketpair()
    keep.extend((ours, theirs))
    fill(ours.fileno())
    def drain():
        os.set_blocking(theirs.fileno(), False)
        try:
            while os.read(theirs.fileno(), 1 << 20): pass
        except BlockingIOError: pass
    return ours.fileno(), drain

def full_eventfd():
    fd = os.eventfd(0)
    os.eventfd_write(fd, 2**64 - 2)
    return fd, lambda: os.eventfd_read(fd)

def disk(mode="rb"):
    path = next(paths)
    with open(path, "wb") as file: file.write(b"d" * 8)
    file = open(path, mode)
    keep.append(file)
    return file.fileno()
"""

READERS = ("empty_pipe", "empty_fifo", "empty_socket", "empty_pty", "empty_eventfd")
WRITERS = ("full_pipe", "full_fifo", "full_socket", "full_eventfd")
EIGHT = "(1).to_bytes(8, 'little')"

CALLS: list[tuple[str, str, tuple[str, ...]]] = [
    ("os.read", "os.read(fd, 8)", READERS),
    ("os.readv", "os.readv(fd, [bytearray(8)])", READERS),
    ("os.readinto", "os.readinto(fd, bytearray(8))", READERS),
    ("os.fdopen", "os.fdopen(fd, 'rb', 0).read(8)", READERS),
    ("builtins.open", "open(fd, 'rb', 0).read(8)", READERS),
    ("builtins.open", "open(fd, closefd=False).readline()", READERS[:-1]),
    ("builtins.open", "open(fd, 'rb').read1()", READERS),
    ("builtins.open", "open('', 'rb', 0, opener=lambda *_: fd).read(8)", READERS),
    ("io.open", "io.open(fd, 'rb', 0).read(8)", READERS),
    ("builtins.open", "open(f'/dev/fd/{fd}', 'rb', 0).read(8)", ("empty_pipe", "empty_fifo")),
    ("builtins.open", "open(os.ttyname(fd), 'rb', 0).read(8)", ("empty_pty",)),
    ("os.eventfd_read", "os.eventfd_read(fd)", ("empty_eventfd",)),
    ("os.splice", "os.splice(fd, os.pipe()[1], 8)", ("empty_pipe", "empty_fifo", "empty_socket")),
    ("os.splice", "os.splice(disk(), fd, 8)", ("full_pipe", "full_fifo")),
    ("os.sendfile", "os.sendfile(fd, disk(), 0, 8)", ("full_socket", "full_pipe", "full_fifo")),
    ("os.write", f"os.write(fd, {EIGHT})", WRITERS),
    ("os.writev", f"os.writev(fd, [{EIGHT}])", WRITERS),
    ("os.fdopen", f"os.fdopen(fd, 'wb', 0).write({EIGHT})", WRITERS),
    ("builtins.open", f"open(fd, 'wb', 0).write({EIGHT})", WRITERS),
    ("os.eventfd_write", "os.eventfd_write(fd, 1)", ("full_eventfd",)),
]
"""Functions, each with a call of it, and the files on which the call must wait."""

OPENS = [
    ("os.open", "os.open(path, os.O_RDONLY)", "os.O_WRONLY"),
    ("os.open", "os.open(path, os.O_WRONLY)", "os.O_RDONLY"),
    ("builtins.open", "open(path)", "os.O_WRONLY"),
    ("builtins.open", "open(path, 'wb')", "os.O_RDONLY"),
    ("io.open", "io.open(path, 'rb')", "os.O_WRONLY"),
]
"""Functions, each with a call that opens a FIFO, and the flags that open the other end."""

CASE = """
def case():
    {setup}
    began = []
    ender = dhaga.spawn(lambda: (began.append(True), end()))  # it begins at the caller's first park
    {call}
    assert began, "it did not wait"
    ender.join()
print({name!r}, flush=True)
case()
"""


def parking_cases() -> list[tuple[str, str]]:
    """Return the cases that park, each as a name and a program."""
    found = []
    for function, call, files in CALLS:
        for file in files:
            if exists(function) and ("eventfd" not in file or hasattr(os, "eventfd")):
                name = f"{call} of an {file}" if file.startswith("e") else f"{call} of a {file}"
                setup = f"fd, end = {file}()"
                found.append((name, CASE.format(setup=setup, call=call, name=name)))
    for _, call, flags in OPENS:
        setup = f"path = fifo(); end = lambda: keep.append(os.open(path, {flags}))"
        found.append((call, CASE.format(setup=setup, call=call, name=call)))
    return found


BLOCKING = [
    ("io.FileIO", "io.FileIO(fd).read(8)", "fd, end = empty_pipe()"),
    ("io.open_code", "io.open_code(path)", "path = fifo(); end = lambda: keep.append(os.open(path, os.O_WRONLY))"),
]
"""Calls that block; ``os.lockf`` needs another process, and ``print`` the standard output."""

BLOCKING_CASE = """
def case():
    {setup}
    ran = []
    dhaga.spawn(ran.append, True)
    def later():
        original("time", "sleep")(0.05)
        end()
    original("_thread", "start_new_thread")(later, ())
    {call}
    assert not ran, "it parks now"
original = dhaga.monkey.original
case()
print({name!r})
"""


def blocking_cases() -> list[tuple[str, str]]:
    """Return the cases that block, each as a name and a program."""
    return [(call, BLOCKING_CASE.format(setup=setup, call=call, name=call)) for _, call, setup in BLOCKING]
