"""``python -m dhaga migrate PATH``: whole trees, what it prints and writes, and its exit status."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dhaga.__main__ import main
from tests.examples.test_migrate import REPORT
from tests.kit.migrations import outputs
from tests.kit.scripts import PATIENCE, ROOT

EXAMPLES = ROOT / "examples" / "migrate"


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Return status, output and errors of the command."""
    status = main(["migrate", *map(str, arguments)])
    return status, *capsys.readouterr()


def report(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, object]:
    return json.loads(run(capsys, "--json", *arguments)[1])


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__init__.py").touch()
    (tmp_path / "app" / "compat.py").write_text("from gevent import sleep, spawn\n")
    (tmp_path / "app" / "main.py").write_text("from .compat import sleep\n\nsleep(1)\n")
    (tmp_path / "app" / "own.py").write_text("import gevent\n\ngevent.sleep(1)\n")
    return tmp_path


# ---- the report


def test_the_three_programs_of_the_examples(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, EXAMPLES)
    assert (status, err) == (1, "")
    lines = [line.removeprefix(f"{EXAMPLES}/") for line in out.splitlines()]
    assert "on_gevent.py:41: gevent.killall -> Scope.cancel(), or cancel() of each" in lines
    assert "on_eventlet.py:73: eventlet.green.socket.create_connection -> dhaga.socket.create_connection" in lines
    assert not [line for line in lines if line.startswith(("on_dhaga.py", "site.py"))]
    assert lines[-2:] == [
        "files read: 6; uses, in files: eventlet 16 in 1, gevent 17 in 1",
        "No change is needed: python -m dhaga --as eventlet --as gevent program.py runs it unchanged.",
    ]


@pytest.mark.once
@pytest.mark.parametrize("form", ["gevent", "eventlet"])
def test_the_programs_of_the_examples_print_the_same_once_rewritten(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "examples" / "migrate"
    shutil.copytree(EXAMPLES, copy, ignore=shutil.ignore_patterns("__pycache__"))
    status, diff, err = run(capsys, "--write", copy)
    assert status == 1 and diff.count("\n--- ") == 1 and "changed: " in err
    text = (copy / f"on_{form}.py").read_text()
    assert f"{form}.sleep" not in text and f"{form}.Timeout" not in text and "except TimeoutError" in text
    command = [sys.executable, "-m", "dhaga", "--as", form, "-m", f"examples.migrate.on_{form}"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", REPORT)


def test_a_name_is_followed_through_the_modules_of_a_tree(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "app" / "third.py").write_text("from app.main import sleep as pause\n\npause(1)\n")
    lines = run(capsys, tree)[1].replace(f"{tree}/app/", "").splitlines()
    assert lines[:8] == [
        "compat.py:1: import gevent.sleep -> dhaga.sleep",
        "compat.py:1: import gevent.spawn -> dhaga.spawn",
        "main.py:1: import gevent.sleep (through .compat) -> dhaga.sleep",
        "main.py:3: gevent.sleep -> dhaga.sleep",
        "own.py:1: import gevent -> dhaga",
        "own.py:3: gevent.sleep -> dhaga.sleep",
        "third.py:1: import gevent.sleep (through app.main) -> dhaga.sleep",
        "third.py:3: gevent.sleep -> dhaga.sleep",
    ]


def test_json_tells_all_of_it(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = report(capsys, "--rewrite", tree)
    rows = [(row["name"], row["line"], row["rewritten"]) for row in data["findings"]]  # type: ignore[attr-defined]
    assert rows[-2:] == [("gevent", 1, True), ("gevent.sleep", 3, True)]
    assert str(data["diff"]).count("\n+++ ") == 1
    assert data["files"] == 4


def test_the_page_shows_what_the_command_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "howto" / "migrate.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "pages.py").write_text(program)
    monkeypatch.chdir(tmp_path)
    shown = re.findall(r"```console\n\$ python -m dhaga migrate ([^|\n]*)(?: \| head -\d+)?\n(.*?)```", page, re.DOTALL)
    assert len(shown) == page.count("```console") == 3
    for arguments, output in shown:
        _, out, err = run(capsys, *arguments.split())
        assert (out if "--json" not in arguments else out[: len(output)]) == output
        if arguments.startswith("--rewrite"):
            assert f"```text\n{err}```" in page


@pytest.mark.once
def test_the_program_of_the_page_prints_the_same_once_rewritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "howto" / "migrate.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "pages.py").write_text(program)
    run(capsys, "--write", tmp_path)
    texts = [program, (tmp_path / "pages.py").read_text()]
    before, after = (outputs([text], tmp_path, "--as", "gevent") for text in texts)
    assert before == after == ["['page a', 'page b', 'page c']\n['page d', 'page e']\n"]


# ---- rewriting


def test_a_rewriting_prints_a_diff_and_changes_nothing(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, diff, err = run(capsys, "--rewrite", tree)
    assert status == 1
    assert (tree / "app" / "own.py").read_text() == "import gevent\n\ngevent.sleep(1)\n"
    name = f"{tree}/app/own.py".lstrip("/")
    assert diff == (
        f"--- a/{name}\n+++ b/{name}\n@@ -1,3 +1,3 @@\n-import gevent\n+import dhaga\n \n"
        "-gevent.sleep(1)\n+dhaga.sleep(1)\n"
    )
    assert "changed: 2 of 6 uses of gevent and eventlet" in err
    assert f"{tree}/app/main.py:3: gevent.sleep is left: it is imported through another module" in err


def test_a_file_to_which_several_paths_lead_is_one(
    tree: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "from gevent.lock import RLock\nclass A:\n    def __init__(self):\n        self.lock = RLock()\n"
    (tree / "app" / "lock.py").write_text(f"{text}    def f(self, a):\n        with a.lock:\n            pass\n")
    monkeypatch.chdir(tree)
    once = run(capsys, "--rewrite", ".")
    assert "+from dhaga.threading import RLock\n" in once[1]
    assert run(capsys, "--rewrite", ".", "app", tree, "app/lock.py", "./app/lock.py") == once


def test_the_diff_can_be_applied(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("patch") is None:
        pytest.skip("there is no patch")
    (tree / "app" / "mark.py").write_bytes(b"\xef\xbb\xbfimport gevent\ngevent.sleep(1)\n\x0c\n")
    (tree / "app" / "latin.py").write_bytes(b"# coding: latin-1\r\nimport gevent\r\ngevent.sleep(1)  # caf\xe9\r\n")
    command = [sys.executable, "-m", "dhaga", "migrate", "--rewrite", "app"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, timeout=PATIENCE, check=False)
    assert done.returncode == 1
    subprocess.run(["patch", "-p1", "--binary"], cwd=tree, input=done.stdout, check=True, timeout=PATIENCE)
    assert (tree / "app" / "own.py").read_text() == "import dhaga\n\ndhaga.sleep(1)\n"
    assert (tree / "app" / "mark.py").read_bytes() == b"\xef\xbb\xbfimport dhaga\ndhaga.sleep(1)\n\x0c\n"
    assert (tree / "app" / "latin.py").read_bytes() == (
        b"# coding: latin-1\r\nimport dhaga\r\ndhaga.sleep(1)  # caf\xe9\r\n"
    )


def test_what_is_written_keeps_encoding_mark_and_line_ends(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    contents = {
        "crlf.py": b"import gevent\r\ngevent.sleep(1)  # \xc3\xa9\r\n",
        "mark.py": b"\xef\xbb\xbfimport gevent\ngevent.sleep(1)",
        "latin.py": b"# coding: latin-1\nx = '\xe9'; import gevent; gevent.sleep(1)\n",
        "script": b"#!/usr/bin/env python\nimport gevent\ngevent.sleep(1)\n",
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    assert main(["migrate", "--write", str(tmp_path)]) == 0
    for name, content in contents.items():
        assert (tmp_path / name).read_bytes() == content.replace(b"gevent", b"dhaga"), name
    assert main(["migrate", str(tmp_path)]) == 0


def test_what_cannot_be_written_is_told(
    tree: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "replace", refuse)
    status, diff, err = run(capsys, "--write", tree / "app" / "own.py")
    assert (status, diff) == (2, "")
    assert f"{tree}/app/own.py: not read: not written: Permission denied" in err
    assert sorted(os.listdir(tree / "app")) == ["__init__.py", "compat.py", "main.py", "own.py"]


# ---- the exit status, and what cannot be read


@pytest.mark.parametrize(
    ("text", "options", "status"),
    [
        ("x = 1\n", [], 0),
        ("import threading\nthreading.Thread()\n", [], 0),
        ("import gevent\n", [], 1),
        ("worker_class = 'gevent'\n", [], 1),
        ("import gevent\ngevent.sleep(1)\n", ["--rewrite"], 0),
        ("import gevent\ngevent.idle()\n", ["--rewrite"], 1),
        ("import gevent\ndef f(:\n", [], 2),
        ("def f(:\n", [], 0),
    ],
)
def test_the_status_is_one_to_ask_for(
    text: str, options: list[str], status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.py").write_text(text)
    assert run(capsys, *options, tmp_path)[0] == status


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"import gevent\nprint 'two'\n", "Missing parentheses"),
        (b"# coding: klingon\nimport gevent\n", "unknown encoding: klingon"),
        (b"import gevent\n\x00", "null bytes"),
        (b"import gevent\nx = " + b"(" * 5000 + b")" * 5000, ""),
        (b"import gevent\nx = '\xff'\n", ""),
    ],
)
def test_a_file_that_is_no_python_is_told_and_the_others_are_read(
    data: bytes, why: str, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "app" / "bad.py").write_bytes(data)
    for options in ([], ["--write"]):
        status, out, err = run(capsys, *options, tree)
        assert status == 2
        line = next(line for line in (out + err).splitlines() if "bad.py" in line)
        assert line.startswith(f"{tree}/app/bad.py: not read: ") and why in line
    assert (tree / "app" / "own.py").read_text() == "import dhaga\n\ndhaga.sleep(1)\n"
    assert (tree / "app" / "bad.py").read_bytes() == data


def test_a_path_that_is_not_there_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, tmp_path / "nowhere")
    assert (status, out.splitlines()[0]) == (2, f"{tmp_path}/nowhere: not read: No such file or directory")
    with pytest.raises(SystemExit) as end:
        main(["migrate"])
    assert end.value.code == 2


def test_names_of_files_may_be_any_bytes(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    (tmp_path / os.fsdecode(b"\xff.py")).write_text("import gevent\ngevent.sleep(1)\n")
    assert main(["migrate", str(tmp_path)]) == 1
    assert rb"\udcff.py:2: gevent.sleep" in capsysbinary.readouterr().out
    assert main(["migrate", "--write", str(tmp_path)]) == 0
    assert b"/\xff.py\n@@" in capsysbinary.readouterr().out


def test_a_pager_may_be_left(tree: Path) -> None:
    here, there = os.pipe()
    os.close(here)
    command = [sys.executable, "-m", "dhaga", "migrate", str(tree)]
    done = subprocess.run(command, cwd=ROOT, stdout=there, stderr=subprocess.PIPE, timeout=PATIENCE, check=False)
    os.close(there)
    assert (done.returncode, done.stderr) == (2, b"")


@pytest.mark.once
@pytest.mark.crowd
def test_ten_thousand_files_take_seconds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = "def f(x):\n    return x.y + 1\n" * 50
    for number in range(10_000):
        folder = tmp_path / f"p{number // 100}"
        folder.mkdir(exist_ok=True)
        user = number % 100 == 0
        (folder / f"m{number}.py").write_text(f"import gevent\ngevent.sleep(1)\n{body}" if user else body)
    began = time.process_time()
    assert run(capsys, "--rewrite", tmp_path)[2].splitlines()[0] == "changed: 200 of 200 uses of gevent and eventlet"
    assert time.process_time() - began < 30
