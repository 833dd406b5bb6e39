"""Each Python snippet of docs/ runs as it stands there, and what the pages list is all there is."""

from __future__ import annotations

import importlib.util
import os
import pkgutil
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dhaga._cli import errors_index
from dhaga._kernel import errors
from tests.kit import blocks, messages, shell_commands
from tests.kit.browser import browsing
from tests.kit.snippets import ROOT, SERVICES, snippets
from tests.scenarios.test_asyncio_libraries import address_of

pytestmark = pytest.mark.once

DOCS = ROOT / "docs"
PAGES = {path.relative_to(DOCS).as_posix(): path for path in sorted(DOCS.rglob("*.md")) if "_build" not in path.parts}
WITH_SNIPPETS = [name for name, path in PAGES.items() if "```python" in path.read_text() and "/api/" not in name]


def read(page: str) -> str:
    return PAGES[page].read_text()


@pytest.mark.parametrize("page", WITH_SNIPPETS)
@pytest.mark.long("runs all programs of a page")
def test_every_python_snippet_of_a_page_runs(page: str, tmp_path: Path) -> None:
    found = snippets(PAGES[page].read_text())
    assert len(found) == PAGES[page].read_text().count("```python\n")
    for snippet in found:
        if snippet.kind not in SERVICES:
            snippet.check(tmp_path)


@pytest.mark.parametrize(
    ("page", "kind"), [(name, kind) for name in WITH_SNIPPETS for kind in SERVICES if f": {kind} -->" in read(name)]
)
def test_every_snippet_that_asks_a_server_runs(page: str, kind: str, tmp_path: Path) -> None:
    _, variable, default = SERVICES[kind]
    address_of(variable, default)
    for snippet in snippets(read(page)):
        if snippet.kind == kind:
            snippet.check(tmp_path)


# ---- blocks of other languages

HANDBOOKS = {name: ROOT / name for name in ("README.md", "CONTRIBUTING.md", "examples/README.md")}
WRITTEN = {name: path for name, path in PAGES.items() if "/api/" not in name} | HANDBOOKS
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.mark.parametrize("page", WRITTEN)
def test_every_block_of_a_page_is_read_by_what_it_is_written_for(page: str) -> None:
    wrong = []
    for block in blocks.read_blocks(WRITTEN[page].read_text(), unnamed="sh" if page == "README.md" else ""):
        try:
            block.check()
        except Exception as error:
            wrong.append(f"line {block.line}: {type(error).__name__}: {error}")
    assert wrong == []


@pytest.mark.parametrize("page", WRITTEN)
def test_every_command_that_a_sentence_mentions_has_these_options(page: str) -> None:
    text = blocks.FENCE.sub("", WRITTEN[page].read_text())
    for command in re.findall(r"`((?:python -m dhaga|make) [^`\n]+)`", text):
        shell_commands.check_mentioned(command)


def test_every_extra_that_a_page_names_is_there() -> None:
    named = {name for path in WRITTEN.values() for name in re.findall(r"\bdhaga\[([\w,-]+)\]", path.read_text())}
    assert len(named) > 5
    assert {extra for names in named for extra in names.split(",")} <= {*EXTRAS, "NAME"}


UNITS = """\
# /etc/systemd/system/a.service
[Service]
User=shop
WorkingDirectory=/srv
ExecStart=/usr/bin/python -m dhaga serve a:app
{}
[Install]
WantedBy={}
"""


@pytest.mark.parametrize(
    ("language", "text", "said"),
    [
        ("sh", "python -m dhaga serve 'app", "unexpected EOF"),
        ("sh", "python -m dhaga serve a:app --worker=4 --thread 8 --colour", "there is no option --colour"),
        ("sh", "ls | python -m dhaga serv a:app", "neither a command nor a file: serv"),
        ("sh", "python -m dhaga --as gevnt a.py", "--as takes"),
        ("sh", "echo $(python -m dhaga dump)", "the following arguments are required: PID"),
        ("sh", "python -m dhaga -m gunicorn --worker-klass dhaga a:app", "unrecognized arguments: --worker-klass"),
        ("sh", "gunicorn -k dhaga.integrations.gunicorn.Work a:app", "Work"),
        ("sh", "make docks", "there is no such target"),
        ("sh", "make stress OPERATION=1", "does not read OPERATION"),
        ("sh", "python -m examples.weeb", "there is no such module"),
        ("console", "python -m dhaga dump 1", "no line begins with"),
        ("console", "$ python -m dhaga migrate --right a.py\n", "there is no option --right"),
        ("toml", "[[faults]\n", "Expected"),
        ("toml", "[[faults]]\nkind = 'meteor'\n", "meteor"),
        ("ini", UNITS.format("", "multi-user.target").replace("[Install]", ""), "systemctl enable needs"),
        ("ini", UNITS.format("", "multi-user.target").replace("User=shop", ""), "starts in / and as root"),
        ("dockerfile", 'FROM python:3.13\nCMD ["python", "-m", "dhaga", "serve"]\n', "arguments are required"),
        ("dockerfile", "FROM python:3.13\nCMD python -m dhaga serve a:app\n", "Expecting value"),
        ("dockerfile", "FROM python:3.13\nROON ls\n", "ROON"),
        ("perl", "print 1", "nothing reads 'perl'"),
    ],
)
def test_a_wrong_block_is_found(language: str, text: str, said: str) -> None:
    with pytest.raises(Exception, match=re.escape(said)):
        blocks.Block(1, language, text).check()


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze")
def test_a_unit_is_verified_by_systemd() -> None:
    with pytest.raises(AssertionError, match=r"Unknown key.*Restar"):
        blocks.Block(1, "ini", UNITS.format("Restar=always", "multi-user.target")).check()


# ---- the path of examples


EXAMPLES = (DOCS / "examples.md").read_text()
PRINTS = re.findall(
    r"^<!-- prints -->\n```sh\n([^\n]+)\n```\n\n```text\n(.*?)^```$", EXAMPLES, re.MULTILINE | re.DOTALL
)


def test_every_example_has_a_number_on_the_path() -> None:
    there = {path.stem for path in (ROOT / "examples").iterdir() if path.is_dir() or path.suffix == ".py"}
    headings = re.findall(r"^## (\d+)\. (\w+)$", EXAMPLES, re.MULTILINE)
    assert [int(number) for number, _ in headings] == list(range(1, len(headings) + 1))
    assert {name for _, name in headings} == {name for name in there if not name.startswith("_")}


@pytest.mark.parametrize(("command", "output"), PRINTS)
def test_an_example_prints_what_the_page_shows(command: str, output: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = command.replace("python ", f"{shlex.quote(sys.executable)} ")
    done = subprocess.run(
        ["sh", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, output, "")


# ---- the errors index


def messages_index() -> ModuleType:
    spec = importlib.util.spec_from_file_location("messages_index", DOCS / "_ext" / "messages_index.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


INDEX = read("reference/errors.md")
LISTED = [(entry.heading, text) for entry in errors_index.entries() for text in entry.texts]
LOGGED = "Logged errors"


@pytest.mark.long("parses all of dhaga/")
def test_each_message_that_a_user_can_meet_has_cause_and_cure() -> None:
    """A new message: add it to docs/reference/errors.md, alone or to an entry with the same cause and cure."""
    found = [message for message in messages.messages() if messages.listed(message)]
    assert len(found) > 300
    assert [message for message in found if (message.heading, message.text) not in LISTED] == []


def test_each_message_of_the_errors_index_is_in_the_source_once() -> None:
    """A message that was reworded or removed: change its text in docs/reference/errors.md, or remove it."""
    in_source = {(message.heading, message.text) for message in messages.messages()}
    by_hand = {"Deadlock", LOGGED}
    assert [each for each in LISTED if each not in in_source and each[0] not in by_hand] == []
    assert [each for each, times in Counter(LISTED).items() if times > 1] == []
    source = "".join(path.read_text() for path in (ROOT / "dhaga").rglob("*.py"))
    pieces = [piece for heading, text in LISTED if heading in by_hand for piece in text.split("…") if piece.strip()]
    assert len(pieces) > 5 and [piece for piece in pieces if piece.strip() not in source] == []


def test_every_entry_of_the_errors_index_is_read() -> None:
    entries = errors_index.entries()
    assert all(entry.cause.endswith((".", "!")) and entry.cure.endswith((".", "`", ":")) for entry in entries)
    assert INDEX.count("*Cause.*") == INDEX.count("*Cure.*") == len(entries)
    assert len(re.findall(r"^`(?!``$).+`$", INDEX, re.MULTILINE)) == len(LISTED)


def test_the_headings_of_the_errors_index_are_public_exceptions() -> None:
    headings = [*errors_index.headings()]
    assert headings == re.findall(r"^## (.+)$", INDEX, re.MULTILINE)
    assert headings[-1] == LOGGED and headings[0] == "Deadlock"
    assert [name for name in headings[:-1] if not messages.is_public(name)] == []


def test_each_message_of_the_errors_index_has_an_anchor_of_its_own() -> None:
    page = messages_index().anchored(INDEX)
    anchors = re.findall(r"\{#([a-z0-9_-]+)\}\[¶\]\(#\1\)", page)
    assert len(anchors) == len(set(anchors)) == len(LISTED)
    assert not re.search(r"^`[^\n]+`\n:", page.replace("message-link", ""), re.MULTILINE)


def test_the_address_at_the_end_of_an_error_leads_to_its_heading() -> None:
    for error in (errors.Deadlock, errors.LeftBehind, errors.ParkError, errors.PatchError):
        assert f"\n## {error.__name__}\n" in INDEX


# ---- the script of the pages

BLOCK = '<div class="highlight-{}"><div class="highlight"><pre>{}</pre></div></div>'
BLOCKS = {
    "default": "pip install",
    "console": "$ ls\nREADME\n$ pwd\n/",
    "diff": "-import queue\n+from dhaga import queue\n q = queue.Queue()\n",
    "text": "what it prints",
}
MESSAGES = """<div id="filter"></div>
<section><h2>ParkError</h2><dl><dt>in a coroutine</dt><dd>await it</dd><dt>in a callback</dt><dd>spawn it</dd></dl>
</section>
<section><h2>ValueError</h2><details><ul><li><code id="name">no name</code></li><li>no address</li></ul></details>
</section>"""


@pytest.fixture
def scripted(tmp_path: Path) -> Iterator[Any]:
    """A browser with a page of such blocks and messages."""
    blocks = "".join(BLOCK.format(*each) for each in BLOCKS.items())
    script = f'<script src="{(DOCS / "_static" / "site.js").as_uri()}"></script>'
    page = f'<!DOCTYPE html><meta charset="utf-8">{script}<article>{blocks}{MESSAGES}</article>'
    (tmp_path / "page.html").write_text(page)
    with browsing(tmp_path / "profile") as browser:
        browser.get((tmp_path / "page.html").as_uri())
        yield browser


def test_a_button_copies_commands_without_prompts_and_the_new_lines_of_a_diff(scripted: Any) -> None:
    scripted.execute_script("window.texts = []; navigator.clipboard.writeText = (text) => window.texts.push(text)")
    for button in scripted.find_elements("css selector", "button.copy"):
        scripted.execute_script("arguments[0].click()", button)
    expected = ["pip install", "ls\npwd", "from dhaga import queue\nq = queue.Queue()\n"]
    assert scripted.execute_script("return window.texts") == expected


def test_a_copy_button_is_beside_the_code_and_what_is_too_wide_scrolls_with_a_hint(scripted: Any) -> None:
    style = (DOCS / "_static" / "site.css").as_uri()
    tables = ("<table><tr>" + "<td>abcdefghijklmnopqrst</td>" * 30 + "</tr></table>", "<table></table>")
    scripted.execute_script(
        "document.head.insertAdjacentHTML('beforeend', `<link rel='stylesheet' href='${arguments[0]}'>`);"
        "document.querySelector('pre').textContent += 'long'.repeat(100);"
        "document.querySelector('pre').style.overflow = 'auto';"
        "document.querySelector('article').insertAdjacentHTML('beforeend', arguments[1]);"
        "document.querySelectorAll('.table-wrapper').forEach(followWidth)",
        style,
        "".join(f"<div class='table-wrapper' style='overflow: auto'>{table}</div>" for table in tables),
    )
    hints = scripted.find_elements("css selector", "p.sideways")
    wait = "return document.querySelector('link').sheet !== null && arguments[0].checkVisibility()"
    browsing_until(scripted, wait, hints[-2])
    assert not hints[-1].is_displayed()  # of a table that fits
    box = scripted.find_element("class name", "table-wrapper")
    assert box.get_attribute("class") == "table-wrapper more-right" and box.get_attribute("tabindex") == "0"
    scripted.execute_script("arguments[0].scrollLeft = arguments[0].scrollWidth", box)
    browsing_until(scripted, "return arguments[0].className === 'table-wrapper more-left'", box)
    code, button = (scripted.find_element("css selector", each).rect for each in ("pre", "button.copy"))
    assert code["x"] + code["width"] <= button["x"] and abs(code["y"] - button["y"]) < 20


def browsing_until(browser: Any, condition: str, *arguments: Any) -> None:
    """Wait until a script returns true. Raises: TimeoutException."""
    from selenium.webdriver.support.wait import WebDriverWait

    WebDriverWait(browser, 30, 0.02).until(lambda _: browser.execute_script(condition, *arguments))


def test_the_filter_shows_what_has_all_words_and_unfolds_it(scripted: Any) -> None:
    def shown() -> list[str]:
        elements = "[...document.querySelectorAll('h2, dt, li')].filter((each) => each.checkVisibility())"
        return scripted.execute_script(f"return {elements}.map((each) => each.textContent)")

    everything = shown()
    box = scripted.find_element("css selector", "input.filter")
    box.send_keys("PARKERROR spawn")
    assert shown() == ["ParkError", "in a callback"]
    assert scripted.find_element("class name", "filter-count").text == "1 of 4 messages"
    box.clear()
    box.send_keys("address")
    assert shown() == ["ValueError", "no address"]
    box.clear()
    box.send_keys(" ")
    assert shown() == everything == ["ParkError", "in a coroutine", "in a callback", "ValueError"]


def test_a_link_to_a_folded_message_unfolds_it(scripted: Any) -> None:
    scripted.execute_script("location.hash = 'name'; dispatchEvent(new Event('hashchange'))")
    assert scripted.find_element("id", "name").is_displayed()


# ---- the sidebar

HOME = "Home <self>"


def test_the_sidebar_is_short_and_every_page_is_named_once() -> None:
    trees = {name: re.findall(r"```{toctree}\n(.*?)```", path.read_text(), re.DOTALL) for name, path in PAGES.items()}
    named = [
        os.path.normpath(Path(name).parent / line) + ".md"
        for name, found in trees.items()
        for tree in found
        for line in tree.splitlines()
        if line and not line.startswith(":") and "*" not in line and line != HOME
    ]
    assert [name for name, times in Counter(named).items() if times > 1] == []
    written = {name for name in PAGES if "/api/" not in name}
    assert written - set(named) == {"index.md", "404.md"}
    in_sidebar = [line for tree in trees["index.md"] for line in tree.splitlines() if line and line[0] != ":"]
    assert in_sidebar[0] == HOME and len(in_sidebar) <= 30


# ---- what is listed by hand


def names_in_source(pattern: str) -> set[str]:
    return {name for path in (ROOT / "dhaga").rglob("*.py") for name in re.findall(pattern, path.read_text())}


def test_the_environment_variables_are_all_listed() -> None:
    page = PAGES["reference/environment.md"].read_text()
    assert names_in_source(r"\bDHAGA_[A-Z_]+\b") <= set(re.findall(r"`(DHAGA_[A-Z_]+)`", page))


def test_the_commands_are_all_described() -> None:
    from dhaga.__main__ import COMMANDS

    page = PAGES["reference/commands.md"].read_text()
    assert [command for command in COMMANDS if f"## `{command}`" not in page and f"## {command}" not in page] == []


def test_every_option_of_serve_is_described() -> None:
    from dhaga._cli.serve import command_line

    options = {option for action in command_line()._actions for option in action.option_strings if option[:2] == "--"}
    page = PAGES["reference/commands.md"].read_text()
    assert sorted(options - {"--help"} - set(re.findall(r"`(--[a-z-]+)", page))) == []


def test_every_path_and_target_on_a_page_is_there() -> None:
    text = "\n".join(path.read_text() for name, path in PAGES.items() if "/api/" not in name)
    paths = set(re.findall(r"`((?:dhaga|tests|examples|benchmarks)/[\w/.]+\w)`", text))
    assert len(paths) > 5 and [path for path in sorted(paths) if not (ROOT / path).exists()] == []
    targets = re.findall(r"^([a-z-]+%?):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = sorted(set(re.findall(r"(?:^|`)make ([a-z][\w.-]*)", text, re.MULTILINE)))
    assert [name for name in named if not any(fnmatch(name, target.replace("%", "?*")) for target in targets)] == []


def test_the_names_of_the_package_on_a_page_are_there() -> None:
    """A name like ``dhaga.threading.Lock`` in code, on the pages that are written by hand."""
    missing = []
    for name, path in PAGES.items():
        if "/api/" not in name:
            for found in sorted(set(re.findall(r"`(dhaga(?:\.[A-Za-z_]\w*)+)[`(]", path.read_text()))):
                if not is_there(found):
                    missing.append(f"{name}: {found}")
    assert missing == []


def is_there(name: str) -> bool:
    """Return whether the package has a name. A module that cannot be imported here, for want of a driver, is read."""
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        module, _, last = name.rpartition(".")
        path = ROOT / f"{module.replace('.', '/')}.py"
        return path.exists() and re.search(rf"^(def|class) {last}\b", path.read_text(), re.MULTILINE) is not None
    return True
