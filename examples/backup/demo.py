"""python -m examples.backup.demo [DIRECTORY]: a backup over a long line, by dhagas and by threads, in one table.

Each file costs round trips: one to ask whether the server has it, and one to send it. A relay in a separate process
delays each byte by half a round trip, but does not limit the rate. All units have the same line and the same kind of
server, each with an empty store. Each unit backs up the directory, restores it, and compares it byte by byte with the
source. By default, the directory is the standard library of the running Python.
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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final

from .jobs import Summary
from .report import COLUMNS, cells, table
from .wire import BackupError

ROOT: Final = Path(__file__).parents[2]
STDLIB: Final = Path(sysconfig.get_path("stdlib"))
EXCLUDED: Final = ("site-packages", "dist-packages", "__pycache__", "config-*", "test", "tests")
"""Parts of the standard library's directory that are no modules, and that differ between installations."""
TOKEN: Final = "demo"
SERVER: Final = ["--workers", "dhagas", "--threads", "1"]
RUNS: Final = {
    "4 x 32 dhagas": ["--workers", "dhagas", "--threads", "4", "--dhagas", "32"],
    "32 threads": ["--workers", "threads", "--threads", "32"],
    "128 threads": ["--workers", "threads", "--threads", "128"],
}
RTT: Final = "50ms"
AS_FAST: Final = 0.1  # a smaller difference is not significant on a machine that also does other work
SHOWN: Final = 10
CLEARED: Final = "\x1b[A\x1b[2K"  # clears the line above, in which a terminal shows the title of the running job


class Demo:
    """One source, backed up by several units."""

    def __init__(self, source: Path, scratch: Path, rtt: str) -> None:
        self.source = source
        self.rtt = rtt
        self.excluded = EXCLUDED if source == STDLIB.resolve() else ()
        self.bytecode = scratch / "bytecode"
        self.relay_shares: list[str] = []
        self.scratch = scratch
        self.began = time.time()
        self.rows: list[list[str]] = []
        self.firsts: dict[str, Summary] = {}  # the first backup of each unit
        self.remarks: list[str] = []

    def warm_up(self) -> None:
        """Read every file, and back up a small folder, so that the first unit pays for neither disk nor compiler."""
        read_through(self.source, self.excluded)
        (small := self.scratch / "small").mkdir()
        (small / "file").write_bytes(os.urandom(1_000_000))
        with server(self.scratch / "warm" / "store", SERVER, self.bytecode) as address:
            line = command("backup", str(small), "--to", address)
            subprocess.run(line, cwd=ROOT, env=environment(self.bytecode), stdout=subprocess.DEVNULL)

    def run(self, title: str, options: list[str]) -> None:
        """Back up, restore and compare, and add three rows to the table."""
        place = self.scratch / title.replace(" ", "-")
        with server(place / "store", SERVER, self.bytecode) as server_address, self._line_to(server_address) as address:
            saving = ["backup", str(self.source), "--to", address]
            saving += [argument for name in self.excluded for argument in ("--exclude", name)]
            first = self.firsts[title] = self._client(f"{title}: backup", saving + options)
            restoring = ["restore", first.snapshot, str(place / "restored"), "--from", address]
            self._client(f"{title}: restore", restoring + options)
        self._compare(place / "restored", title, {line.partition(": ")[0] for line in first.problems})

    @contextmanager
    def _line_to(self, place: str) -> Iterator[str]:
        """Run a relay with unlimited rate in front of a server; no relay if the round trip is 0.

        Returns: HOST:PORT.
        """
        if self.rtt == "0":
            yield place
            return
        from benchmarks.backup.processes import running

        began = time.monotonic()
        with running("benchmarks.backup.relay", "--to", place, "--rtt", self.rtt, "--rate", "unlimited") as relay:
            yield f"127.0.0.1:{json.loads(relay.line())['port']}"
            self.relay_shares.append(f"{json.loads(relay.end())['cpu'] / (time.monotonic() - began):.0%}")

    def _client(self, title: str, arguments: list[str]) -> Summary:
        if sys.stderr.isatty():
            print(f"{title} ...", file=sys.stderr)
        done = subprocess.run(
            command(*arguments, "--json"), cwd=ROOT, env=environment(self.bytecode), stdout=subprocess.PIPE
        )
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
        found = [path for path in differences(self.source, restored, self.excluded) if path not in reported]
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
    """Return a job's rate, the ratio by which compression reduced the sent bytes, and its time, as text."""
    smaller = f"{summary.bytes / summary.sent:.1f} x smaller, " if summary.sent else ""
    return f"{summary.rate / 1e6:.1f} MB/s, {smaller}{summary.seconds:.2f} s"


def result(firsts: dict[str, Summary], rtt: str) -> str:
    """Return a sentence with the result of the backups, and its reason."""
    (title, one), (few_title, few), (many_title, many) = firsts.items()
    gain, other = few.seconds / one.seconds, many.seconds / one.seconds
    long = rtt != "0"
    line = f"with a round trip of {rtt}" if long else "without a round trip"
    if not long:
        why = "there is nothing to wait for, so that only the processors decide"
    elif gain > 1 + AS_FAST:
        why = f"each file waits for the line, and {one.workers} of them waited at once instead of {few.workers}"
    else:
        why = "the processors and the disk, not the line, were the limit here"
    cpu, memory = (f"{a / b:.2g}" for a, b in [(many.cpu_seconds, one.cpu_seconds), (many.peak_rss, one.peak_rss)])
    return (
        f"{line[0].upper()}{line[1:]}, {title} were {speed(gain)} {few_title}, because {why}; they were "
        f"{speed(other)} {many_title}, which used {cpu} x their CPU time and {memory} x their memory."
    )


def speed(ratio: float) -> str:
    """Return a ratio of two times in words."""
    return "about as fast as" if abs(ratio - 1) <= AS_FAST else f"{ratio:.1f} x as fast as"


def differences(source: Path, restored: Path, excluded: Sequence[str] = ()) -> Iterator[str]:
    """Yield the paths at which two trees differ in kind, mode, time, target or bytes."""
    for path in sorted(paths(source, excluded) | paths(restored)):
        try:
            if not same(source / path, restored / path):
                yield path
        except FileNotFoundError:
            yield path


def paths(root: Path, excluded: Sequence[str] = ()) -> set[str]:
    """Return every path below a directory, except for names that match a pattern."""
    found: set[str] = set()
    for directory, directories, files in os.walk(root):
        directories[:], files = kept(directories, excluded), kept(files, excluded)
        here = Path(directory).relative_to(root)
        found.update(str(here / name) for name in [*directories, *files])
    return found


def kept(names: list[str], excluded: Sequence[str]) -> list[str]:
    return [name for name in names if not any(fnmatch(name, pattern) for pattern in excluded)]


def same(one: Path, other: Path) -> bool:
    """Compare two files, links or directories."""
    left, right = os.lstat(one), os.lstat(other)
    if (left.st_mode, left.st_mtime_ns) != (right.st_mode, right.st_mtime_ns):
        return False
    if stat.S_ISLNK(left.st_mode):
        return os.readlink(one) == os.readlink(other)
    return not stat.S_ISREG(left.st_mode) or filecmp.cmp(one, other, shallow=False)


def read_through(source: Path, excluded: Sequence[str]) -> None:
    """Read every file once, so that the first unit does not have to wait for the disk."""
    for path in paths(source, excluded):
        if (source / path).is_file():
            try:
                (source / path).read_bytes()
            except OSError:
                pass


# ---- processes ----


def command(*arguments: str) -> list[str]:
    """Give the command line of the backup."""
    return [sys.executable, "-m", "examples.backup", *arguments]


def environment(bytecode: Path | None = None) -> dict[str, str]:
    """Return the environment of a child. Its bytecode goes to this folder or nowhere, so the source is unchanged."""
    own = {"PYTHONPYCACHEPREFIX": str(bytecode)} if bytecode else {"PYTHONDONTWRITEBYTECODE": "1"}
    others = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**others, "BACKUP_TOKEN": TOKEN, **own}


@contextmanager
def server(store: Path, options: list[str], bytecode: Path | None = None) -> Iterator[str]:
    """Run a server on a free port.

    Returns: HOST:PORT.
    """
    store.mkdir(parents=True)
    with open(store.parent / "log", "w+") as log:
        line = command("serve", "--store", str(store), "--port", "0", *options)
        process = subprocess.Popen(
            line, cwd=ROOT, env=environment(bytecode), stdout=subprocess.PIPE, stderr=log, text=True
        )
        try:
            assert process.stdout
            address = process.stdout.readline().rpartition(" ")[2].strip()
            if not address:
                process.wait()
                raise BackupError("the server did not start:\n" + (store.parent / "log").read_text())
            yield address
        finally:
            end(process)


def round_trip(text: str) -> str:
    """Check a round trip, such as 40ms, or 0 for none."""
    from benchmarks.backup.quantities import duration

    return text if duration(text) else "0"


def end(process: subprocess.Popen[str]) -> None:
    """Terminate a process, and kill it if it does not end."""
    process.terminate()
    try:
        process.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


def main() -> int:
    """Run the demo."""
    parser = argparse.ArgumentParser(prog="python -m examples.backup.demo", description=__doc__.partition(":")[2])
    parser.add_argument("directory", nargs="?", type=Path, default=STDLIB)
    parser.add_argument("--rtt", type=round_trip, default=RTT, help="round trip of the line; 0: none (%(default)s)")
    options = parser.parse_args()
    source: Path = options.directory.resolve()
    try:
        if not source.is_dir():
            raise BackupError(f"cannot back up {source}: it is not a directory")
        with tempfile.TemporaryDirectory(prefix="backup-demo-") as scratch:
            demo = Demo(source, Path(scratch), options.rtt)
            demo.warm_up()
            for title, unit in RUNS.items():
                demo.run(title, unit)
    except BackupError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    about = f"{platform.python_implementation()} {platform.python_version()}, {os.cpu_count()} processors"
    line = f"over a simulated line with a round trip of {options.rtt}" if options.rtt != "0" else "without a round trip"
    print(f"\n{source} {line} ({about})\n")
    print(table(["", *COLUMNS], demo.rows))
    print("\n" + "\n".join(demo.remarks))
    if demo.relay_shares:
        print(f"the relay used {', '.join(demo.relay_shares)} of a processor: it delays, and does not slow down")
    print(f"\n{result(demo.firsts, options.rtt)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
