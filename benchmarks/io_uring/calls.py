"""The ring of a scheduler: `ring.c` is compiled, and its completions wake their callers through the poller."""

from __future__ import annotations

import importlib.util
import os
import shlex
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from dhaga._kernel.run.fd_watch import READ, FdWatcher
from dhaga._kernel.run.scheduler import Scheduler
from dhaga._kernel.wait.current import this_waiter
from dhaga._workers.offloaded_call import outside_call

SOURCE = Path(__file__).with_name("ring.c")


def compiled(folder: Path) -> Any:
    """Compile `ring.c` into a folder, and import it. Raises: CalledProcessError."""
    module = folder / f"ring{sysconfig.get_config_var('EXT_SUFFIX')}"
    include = f"-I{sysconfig.get_path('include')}"
    compiler = shlex.split(os.environ.get("CC", "cc"))
    subprocess.run([*compiler, "-O2", "-shared", "-fPIC", include, str(SOURCE), "-o", str(module)], check=True)
    spec = importlib.util.spec_from_file_location("ring", module)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


class RingWatcher(FdWatcher):
    """The eventfd of a ring: each event wakes the callers of all completed operations."""

    __slots__ = ("ring",)

    def __init__(self, scheduler: Scheduler, ring: Any) -> None:
        super().__init__(scheduler, ring.event)
        self.ring = ring

    def ready(self, directions: int) -> None:
        for waiter, result in self.ring.reap():
            waiter.wake_parked(result)


class RingCalls:
    """Operations through the ring of the caller's scheduler. Each behaves like its counterpart in `os`."""

    def __init__(self, folder: Path) -> None:
        self.c = compiled(folder)
        self.ring = self.c.Ring()
        self.watcher = RingWatcher(this_waiter().scheduler, self.ring)
        self.watcher.poller.register(self.watcher, READ)

    def close_ring(self) -> None:
        """Unregister the ring from the poller. Call this only if no operation is in progress."""
        self.watcher.close()

    def call(
        self,
        opcode: int,
        fd: int,
        data: bytes | None = None,
        length: int = 0,
        offset: int = 0,
        other: bytes | None = None,
        flags: int = 0,
    ) -> Any:
        """Submit an operation. Parks: until it is complete, unless it completes at once. Raises: OSError."""
        me = this_waiter()
        me.prepare_uncancellable("io_uring")
        result = self.ring.submit(me, opcode, fd, data, length, offset, other, flags)
        if result is not None:
            me.parked = []
        else:
            with outside_call(me):
                result = me.park_until_woken()
        if isinstance(result, int) and result < 0:
            raise OSError(-result, os.strerror(-result))
        return result

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        return self.call(self.c.IORING_OP_READ, fd, None, size, offset)  # type: ignore[no-any-return]

    def pwrite(self, fd: int, data: bytes, offset: int, flags: int = 0) -> None:
        self.call(self.c.IORING_OP_WRITE, fd, data, len(data), offset, None, flags)

    def fsync(self, fd: int) -> None:
        self.call(self.c.IORING_OP_FSYNC, fd)

    def fdatasync(self, fd: int) -> None:
        self.call(self.c.IORING_OP_FSYNC, fd, flags=self.c.IORING_FSYNC_DATASYNC)

    def open(self, path: bytes, flags: int) -> int:
        opened = self.call(self.c.IORING_OP_OPENAT, self.c.AT_FDCWD, path, 0o600, flags=flags | os.O_CLOEXEC)
        return opened  # type: ignore[no-any-return]

    def close(self, fd: int) -> None:
        self.call(self.c.IORING_OP_CLOSE, fd)

    def stat(self, path: bytes) -> None:
        self.call(self.c.IORING_OP_STATX, self.c.AT_FDCWD, path, self.c.STATX_BASIC)

    def rename(self, path: bytes, other: bytes) -> None:
        cwd = self.c.AT_FDCWD
        self.call(self.c.IORING_OP_RENAMEAT, cwd, path, cwd & 0xFFFFFFFF, 0, other)
