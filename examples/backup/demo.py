"""python -m examples.backup.demo [DIRECTORY]: the main job on real input, on dhagas and on threads, in one table.

For each unit a server of its own, in a process of its own, in a temporary directory: back the directory up, back it up
again, restore it, compare it with the source byte for byte. The default is the running Python's standard library.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import os
import platform
import stat
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from .jobs import Summary
from .report import COLUMNS, cells, table
from .wire import BackupError

ROOT: Final = Path(__file__).parents[2]
EXCLUDED: Final = ("site-packages", "dist-packages")  # not the standard library, where they lie in its directory
TOKEN: Final = "demo"
RUNS: Final = {
    "4 x 32 dhagas": ["--workers", "dhagas", "--threads", "4", "--dhagas", "32"],
    "32 threads": ["--workers", "threads", "--threads", "32"],
}
SHOWN: Final = 10
CLEARED: Final = "\x1b[A\x1b[2K"  # the line above, where a terminal shows the job's title while it runs


class Demo:
    """One source, backed up by several units."""

    def __init__(self, source: Path, scratch: Path) -> None:
        self.source = source
        self.scratch = scratch
        self.began = time.time()
        self.rows: list[list[str]] = []
        self.firsts: dict[str, Summary] = {}  # the first backup of each unit
        self.remarks: list[str] = []

    def run(self, title: str, options: list[str]) -> None:
        """Back up twice, restore and compare, and add three rows to the table."""
        place = self.scratch / title.replace(" ", "-")
        with server(place / "store", options[:2]) as address:
            saving = ["backup", str(self.source), "--to", address]
            saving += [argument for name in EXCLUDED for argument in ("--exclude", name)]
            first = self.firsts[title] = self._client(f"{title}: first backup", saving + options)
            self._client(f"{title}: again", saving + options)
            restoring = ["restore", first.snapshot, str(place / "restored"), "--from", address]
            self._client(f"{title}: restore", restoring + options)
        self._compare(place / "restored", title, {line.partition(": ")[0] for line in first.problems})

    def _client(self, title: str, arguments: list[str]) -> Summary:
        if sys.stderr.isatty():
            print(f"{title} ...", file=sys.stderr)
        done = subprocess.run(command(*arguments, "--json"), cwd=ROOT, env=environment(), stdout=subprocess.PIPE)
        if not done.stdout:
            raise BackupError(f"{title} failed, see above")
        values: dict[str, Any] = json.loads(done.stdout)
        values.pop("rate")
        summary = Summary(**values)
        unit, _, job = title.partition(": ")
        if [unit] not in (row[:1] for row in self.rows):
            self.rows.append([unit, *("" for _ in COLUMNS)])
        self.rows.append([f"  {job}", *cells(summary)])
        print(f"{CLEARED if sys.stderr.isatty() else ''}{title}: {in_short(summary)}", file=sys.stderr)
        return summary

    def _compare(self, restored: Path, title: str, reported: set[str]) -> None:
        found = [path for path in differences(self.source, restored) if path not in reported]
        changed = [path for path in found if self._changed_since(path)]
        wrong = sorted(set(found) - set(changed))
        if wrong:
            names = ", ".join(wrong[:SHOWN])
            raise BackupError(f"{title}: {len(wrong)} of the restored files differ from the source: {names}")
        self.remarks.append(f"{title}: what was restored is the source, byte for byte")
        if changed or reported:
            self.remarks[-1] += f" (but for {len(changed)} that changed meanwhile, {len(reported)} that were reported)"

    def _changed_since(self, path: str) -> bool:
        try:
            return (
                max(os.lstat(self.source / path).st_ctime, os.lstat((self.source / path).parent).st_ctime) > self.began
            )
        except FileNotFoundError:
            return True


def in_short(summary: Summary) -> str:
    """Return the rate of a job, how much smaller its bytes went over the wire, and how long it took."""
    smaller = f"{summary.bytes / summary.sent:.1f} x smaller, " if summary.sent else ""
    return f"{summary.rate / 1e6:.1f} MB/s, {smaller}{summary.seconds:.2f} s"


def result(firsts: dict[str, Summary]) -> str:
    """Return the comparison of the first backups of two units in one line."""
    (title, one), (other_title, other) = firsts.items()
    ratios = [other.seconds / one.seconds, one.cpu_seconds / other.cpu_seconds, one.peak_rss / other.peak_rss]
    faster, cpu, memory = (f"{ratio:.2g}" for ratio in ratios)
    return f"{title} against {other_title}: {faster} x the speed, {cpu} x the CPU, {memory} x the memory"


def differences(source: Path, restored: Path) -> Iterator[str]:
    """Give the paths at which two trees are not the same in kind, mode, time, target or bytes."""
    for path in sorted(paths(source) | paths(restored)):
        try:
            if not same(source / path, restored / path):
                yield path
        except FileNotFoundError:
            yield path


def paths(root: Path) -> set[str]:
    """Give every path below a directory, but for those the demo excludes."""
    found: set[str] = set()
    for directory, directories, files in os.walk(root):
        directories[:] = [name for name in directories if name not in EXCLUDED]
        here = Path(directory).relative_to(root)
        found.update(str(here / name) for name in [*directories, *files])
    return found


def same(one: Path, other: Path) -> bool:
    """Compare two files, links or directories."""
    left, right = os.lstat(one), os.lstat(other)
    if (left.st_mode, left.st_mtime_ns) != (right.st_mode, right.st_mtime_ns):
        return False
    if stat.S_ISLNK(left.st_mode):
        return os.readlink(one) == os.readlink(other)
    return not stat.S_ISREG(left.st_mode) or filecmp.cmp(one, other, shallow=False)


def read_through(source: Path) -> None:
    """Read every file once, so that the one who comes first does not pay for the disk."""
    for path in paths(source):
        if (source / path).is_file():
            try:
                (source / path).read_bytes()
            except OSError:
                pass


# ---- processes ----


def command(*arguments: str) -> list[str]:
    """Give the command line of the backup."""
    return [sys.executable, "-m", "examples.backup", *arguments]


def environment() -> dict[str, str]:
    """Give the environment for a child: it writes no bytecode, which would change the source."""
    return {**os.environ, "BACKUP_TOKEN": TOKEN, "PYTHONDONTWRITEBYTECODE": "1"}


@contextmanager
def server(store: Path, options: list[str]) -> Iterator[str]:
    """Run a server on a free port.

    Returns: HOST:PORT.
    """
    store.mkdir(parents=True)
    with open(store.parent / "log", "w+") as log:
        line = command("serve", "--store", str(store), "--port", "0", *options)
        process = subprocess.Popen(line, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert process.stdout
            address = process.stdout.readline().rpartition(" ")[2].strip()
            if not address:
                process.wait()
                raise BackupError("the server did not start:\n" + (store.parent / "log").read_text())
            yield address
        finally:
            end(process)


def end(process: subprocess.Popen[str]) -> None:
    """End a process, gently at first."""
    process.terminate()
    try:
        process.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


def main() -> int:
    """Run the demo."""
    parser = argparse.ArgumentParser(prog="python -m examples.backup.demo", description=__doc__.partition(":")[2])
    parser.add_argument("directory", nargs="?", type=Path, default=Path(sysconfig.get_path("stdlib")))
    source: Path = parser.parse_args().directory.resolve()
    try:
        if not source.is_dir():
            raise BackupError(f"cannot back up {source}: it is not a directory")
        with tempfile.TemporaryDirectory(prefix="backup-demo-") as scratch:
            read_through(source)
            demo = Demo(source, Path(scratch))
            for title, options in RUNS.items():
                demo.run(title, options)
    except BackupError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    about = f"{platform.python_implementation()} {platform.python_version()}, {os.cpu_count()} processors"
    print(f"\n{source} ({about})\n")
    print(table(["", *COLUMNS], demo.rows))
    print("\n" + "\n".join(demo.remarks))
    print(result(demo.firsts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
