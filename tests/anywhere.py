"""Run ``make test`` where and how other people run it: ``python -m tests.anywhere``, ``make test-anywhere``.

A copy of the checkout is tested under all conditions at once, by another user where that is possible. Meanwhile this
checkout is tested as well, and a second environment of the copy is installed again and again. If the copy fails,
``--conditions`` finds the one to blame, and ``--target`` a part that shows it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from tests.kit.suite import terminated

ROOT = Path(__file__).resolve().parent.parent
PATH_WITH_BLANKS = "a checkout with blanks"
OTHER_USER = "nobody"
AS_OTHER_USER = ("setpriv", f"--reuid={OTHER_USER}", "--clear-groups")
MAKES_OWN = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "ARGS", "PYTHON")
INSTALL_PAUSE_SECONDS = 5

CONDITIONS = {
    "signals": "trap '' HUP INT QUIT TERM",
    "stdin": "exec <&-",
    "umask": "umask 077",
    "files": "ulimit -Sn 1024",
    "terminal": "unset TERM COLUMNS; export NO_COLOR=1",
    "home": "export HOME=/proc",  # a folder that not even root can write to
}
"""What a shell does before it becomes ``make``. A path with blanks, the other user and the install are options."""


class Copy:
    """A copy of the checkout's own files, in which another user can run ``make``."""

    def __init__(self, folder: Path, user: str | None) -> None:
        self.path = folder / PATH_WITH_BLANKS
        self.user = user
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for name in filter(None, names.split("\0")):
            if (ROOT / name).exists():
                (self.path / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.path / name)
        folder.chmod(0o755)
        if user:
            subprocess.run(["chown", "-R", user, folder], check=True)

    def start(self, words: list[str], before: str = "true") -> subprocess.Popen[bytes]:
        """Start a command in the copy; ``before`` is what the shell does first."""
        environment = {name: value for name, value in os.environ.items() if name not in MAKES_OWN}
        if self.user:
            words = [*AS_OTHER_USER, *words]
            environment |= {"HOME": str(self.path), "USER": self.user, "TMPDIR": "/tmp"}
        command = ["sh", "-c", f'{before}; exec "$@"', "sh", *words]
        return subprocess.Popen(command, cwd=self.path, env=environment, start_new_session=True)


def other_user(python: str) -> str | None:
    """Return another user who can run this Python, if there is one and this one may become it."""
    if os.getuid() != 0 or not shutil.which("setpriv"):
        return None
    tried = subprocess.run(
        ["setpriv", f"--reuid={OTHER_USER}", "--clear-groups", python, "-c", ""], capture_output=True
    )
    return OTHER_USER if tried.returncode == 0 else None


def install_again_and_again(copy: Copy, python: str, ended: threading.Event) -> None:
    """Keep another environment of the copy being made, by the same Python: it compiles the same modules."""
    copy.start([python, "-m", "venv", ".venv-beside"]).wait()
    while not ended.wait(INSTALL_PAUSE_SECONDS):
        copy.start([".ci/install", ".venv-beside", "examples"]).wait()


def end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


def run(folder: Path, options: argparse.Namespace) -> dict[str, int]:
    """Run what the options ask for. Returns: the status of each run by its name."""
    python = getattr(sys, "_base_executable", sys.executable)
    copy = Copy(folder, None if options.same_user else other_user(python))
    print(
        f"== {options.target} in {copy.path} by {copy.user or 'this user'}: {', '.join(options.conditions)}", flush=True
    )
    make = ["make", f"PYTHON={python}", *options.target.split()]
    before = "; ".join(CONDITIONS[name] for name in options.conditions) or "true"
    runs = {"in the copy": copy.start(make, before)}
    if not options.alone:
        environment = {name: value for name, value in os.environ.items() if name not in MAKES_OWN}
        runs["beside it"] = subprocess.Popen(make, cwd=ROOT, env=environment, start_new_session=True)
    ended = threading.Event()
    installs = threading.Thread(target=install_again_and_again, args=(copy, python, ended))
    installs.start()
    try:
        return {name: process.wait() for name, process in runs.items()}
    finally:
        for process in runs.values():
            end(process)
        ended.set()
        installs.join()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.anywhere", description="Run the tests as other people do.")
    parser.add_argument("--conditions", nargs="*", choices=CONDITIONS, default=list(CONDITIONS), help="some of them")
    parser.add_argument("--target", default="test", help="of make, with arguments: 'test-first ARGS=tests/_cli'")
    parser.add_argument("--alone", action="store_true", help="leave out the run in this checkout beside it")
    parser.add_argument("--same-user", action="store_true", help="run the copy as this user, also as root")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, terminated)  # so that it ends its runs, which are sessions of their own
    with tempfile.TemporaryDirectory(prefix="dhaga-anywhere-") as folder:
        statuses = run(Path(folder), options)
    for name, status in statuses.items():
        print(f"== {options.target} {name}: {'passed' if status == 0 else f'FAILED with status {status}'}")
    return int(any(statuses.values()))


if __name__ == "__main__":
    raise SystemExit(main())
