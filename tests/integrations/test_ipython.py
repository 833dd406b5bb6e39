"""``%load_ext dhaga``: cells of a real ipykernel run in dhagas; plain IPython and ``python -m asyncio`` beside it."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("ipykernel")
manager = pytest.importorskip("jupyter_client.manager")

pytestmark = [pytest.mark.once, pytest.mark.process]

PATIENCE = 60


class Notebook:
    """A kernel and a client of it."""

    def __init__(self) -> None:
        self.kernel, self.client = manager.start_new_kernel(kernel_name="python3", stderr=subprocess.DEVNULL)
        self.messages: list[tuple[str, str]] = []
        self.last = ""

    def run(self, code: str) -> tuple[str, str]:
        """Run a cell. Returns: "ok" or the name of its error, and its output."""
        self.last = self.client.execute(textwrap.dedent(code))
        return self.reply_to(self.last)

    def reply_to(self, message: str) -> tuple[str, str]:
        while (reply := self.client.get_shell_msg(timeout=PATIENCE))["parent_header"]["msg_id"] != message:
            pass
        output = ""
        while True:
            told = self.client.get_iopub_msg(timeout=PATIENCE)
            kind, content = told["msg_type"], told["content"]
            if kind == "stream":
                self.messages.append((told["parent_header"]["msg_id"], content["text"]))
            if told["parent_header"].get("msg_id") != message:
                continue
            output += content.get("text", "") if kind == "stream" else ""
            output += content["data"]["text/plain"] if kind == "execute_result" else ""
            if kind == "status" and content["execution_state"] == "idle":
                break
        content = reply["content"]
        return content["ename"] if content["status"] == "error" else "ok", output.strip()

    def interrupt(self, code: str) -> tuple[str, str]:
        """Run a cell that prints when it is to be interrupted, and do so."""
        message = self.client.execute(textwrap.dedent(code))
        while (told := self.client.get_iopub_msg(timeout=PATIENCE))["msg_type"] != "stream":
            pass
        assert told["content"]["text"].strip() == "now"
        time.sleep(0.2)  # on a machine where it takes longer to park the cell is interrupted before: the same outcome
        self.kernel.interrupt_kernel()
        return self.reply_to(message)

    def close(self) -> None:
        self.client.stop_channels()
        self.kernel.shutdown_kernel(now=True)


@pytest.fixture(scope="module")
def kernel() -> Iterator[Notebook]:
    notebook = Notebook()
    try:
        # The rest of the cell that loads the extension runs as before.
        status, said = notebook.run("%load_ext dhaga\nimport asyncio, threading, time\nimport dhaga\n6 * 7")
        assert status == "ok" and re.fullmatch("dhaga: from the next cell on, cells run in dhagas.*\n42", said)
        yield notebook
    finally:
        notebook.close()


@pytest.fixture
def notebook(kernel: Notebook) -> Notebook:
    kernel.run("%load_ext dhaga")
    return kernel


@pytest.mark.parametrize(
    ("cell", "output"),
    [
        ("dhaga.sleep(0.01)\ndhaga.current().name", "'cell'"),
        ("with dhaga.Scope() as scope: child = scope.spawn(lambda: 7)\nprint(child.result())", "7"),
        ("one = dhaga.spawn(int)\none.result()", "0"),
        ("%time dhaga.sleep(0.01)", "Wall time"),
        ("get_ipython().run_cell('dhaga.sleep(0.01); 5').result", "5"),
        ("with dhaga.Scheduler() as io: print(io.spawn(lambda: 9).result())", "9"),
        ("import dhaga.futures\nwith dhaga.futures.Executor() as e: print(list(e.map(abs, [-1, 2])))", "[1, 2]"),
    ],
)
def test_a_cell_parks(notebook: Notebook, cell: str, output: str) -> None:
    status, said = notebook.run(cell)
    assert status == "ok" and output in said


def test_cells_with_a_top_level_await_work_as_before(notebook: Notebook) -> None:
    assert notebook.run("await asyncio.sleep(0.01, 3)") == ("ok", "3")
    assert notebook.run("await dhaga.spawn(lambda: dhaga.sleep(0.01) or 4)") == ("ok", "4")
    assert notebook.run("from dhaga.aio import run_in_dhaga\nawait run_in_dhaga(max, 1, 5)") == ("ok", "5")


def test_variables_and_errors_are_those_of_the_notebook(notebook: Notebook) -> None:
    assert notebook.run("number = 8") == ("ok", "")
    assert notebook.run("number + 1") == ("ok", "9")
    assert notebook.run("1 / 0")[0] == "ZeroDivisionError"
    assert notebook.run("if") == ("SyntaxError", "")
    assert notebook.run("raise SystemExit(3)")[0] == "SystemExit"
    assert notebook.run("number") == ("ok", "8")


def test_background_dhagas_go_on_between_cells_and_print_under_the_cell_that_spawned_them(notebook: Notebook) -> None:
    assert notebook.run("""
        counts = []
        def count():
            while True:
                dhaga.sleep(0.01)
                counts.append(1)
        def tells():
            dhaga.sleep(0.1)
            print("from the background")
            told.set()
        told = dhaga.threading.Event()
        counter = dhaga.spawn(count, daemon=True)
        teller = dhaga.spawn(tells)
    """) == ("ok", "")
    spawner = notebook.last
    deadline = time.monotonic() + PATIENCE
    while notebook.run("len(counts) > 5") != ("ok", "True"):
        assert time.monotonic() < deadline
    assert notebook.run("told.wait(); counter.cancel()")[0] == "ok"
    notebook.run("dhaga.sleep(0.3)")
    assert [parent for parent, text in notebook.messages if "from the background" in text] == [spawner]


def test_an_interrupt_ends_a_cell_that_waits(notebook: Notebook) -> None:
    status, said = notebook.interrupt("""
        try:
            print("now")
            dhaga.sleep(600)
        finally:
            dhaga.sleep(0.01)
            print("cleaned up")
    """)
    assert status == "KeyboardInterrupt" and "cleaned up" in said
    assert notebook.run("1") == ("ok", "1")


def test_an_interrupt_ends_a_cell_that_computes(notebook: Notebook) -> None:
    assert notebook.interrupt("print('now', flush=True)\nwhile True: pass")[0] == "KeyboardInterrupt"


def test_a_second_interrupt_ends_a_dhaga_that_does_not_let_the_cell_go_on(notebook: Notebook) -> None:
    notebook.run("""
        def hog():
            print("now", flush=True)
            while True: pass
    """)
    message = notebook.client.execute("hogging = dhaga.spawn(hog)\nhogging.join()")
    while notebook.client.get_iopub_msg(timeout=PATIENCE)["msg_type"] != "stream":
        pass
    for _ in range(20):  # two would do, if both were handled
        notebook.kernel.interrupt_kernel()
        time.sleep(0.3)
        if notebook.client.shell_channel.msg_ready():
            break
    assert notebook.reply_to(message)[0] == "KeyboardInterrupt"
    assert notebook.run("hogging.state") == ("ok", "'DONE'")


def test_an_interrupt_may_be_caught(notebook: Notebook) -> None:
    cell = "try:\n    print('now')\n    dhaga.sleep(600)\nexcept KeyboardInterrupt: print('caught')"
    status, said = notebook.interrupt(cell)
    assert status == "ok" and said.endswith("caught")


def test_an_interrupt_of_a_cell_leaves_background_dhagas_alone(notebook: Notebook) -> None:
    notebook.run("sleeper = dhaga.spawn(dhaga.sleep, 600, daemon=True)")
    assert notebook.interrupt("print('now')\nsleeper.join()")[0] == "KeyboardInterrupt"
    assert notebook.run("sleeper.state") == ("ok", "'WAITING'")
    assert notebook.run("sleeper.cancel(); sleeper.join()") == ("ok", "")


def test_the_magic_shows_the_dhagas(notebook: Notebook) -> None:
    notebook.run("sleepers = [dhaga.spawn(dhaga.sleep, 600, name=f'sleeper-{n}', daemon=True) for n in range(3)]")
    status, said = notebook.run("%dhaga sleeper")
    assert status == "ok" and "3 × sleeper-…" in said and "RUNNING" not in said
    assert "cell" in notebook.run("%dhaga")[1]
    assert notebook.run("for each in sleepers: each.cancel()") == ("ok", "")


def test_without_the_extension_cells_are_as_before(notebook: Notebook) -> None:
    assert notebook.run("sleeper = dhaga.spawn(dhaga.sleep, 0.01)\n%unload_ext dhaga") == ("ok", "")
    assert notebook.run("dhaga.sleep(0.01)")[0] == "ParkError"
    assert notebook.run("await sleeper") == ("ok", "")
    status, said = notebook.run("%reload_ext dhaga\n1")
    assert status == "ok" and said.startswith("dhaga: from the next cell on") and said.endswith("1")
    assert notebook.run("dhaga.sleep(0.01)") == ("ok", "")


# ---- without a notebook


def python(*command: str, lines: str = "") -> str:
    done = subprocess.run(
        [sys.executable, *command],
        input=textwrap.dedent(lines),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("load", ["", "%load_ext dhaga"])
def test_plain_ipython_parks_as_it_is(load: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    said = python(
        *("-m", "IPython", "--simple-prompt", "--no-banner", "--colors=NoColor"),
        lines=f"""
        {load}
        import dhaga, asyncio
        one = dhaga.spawn(lambda: dhaga.sleep(0.01) or 41)
        one.result() + 1
        await asyncio.sleep(0, 43)
        """,
    )
    assert "42" in said and "43" in said


def test_the_repl_of_asyncio_awaits_dhagas() -> None:
    said = python(
        *("-c", "import sys, runpy; sys.argv = ['asyncio']; runpy.run_module('asyncio', run_name='__main__')"),
        lines="""
        import dhaga.aio
        await dhaga.aio.run_in_dhaga(lambda: dhaga.sleep(0.01) or 42)
        await dhaga.spawn(lambda: dhaga.sleep(0.01) or 43)
        """,
    )
    assert "42" in said and "43" in said
