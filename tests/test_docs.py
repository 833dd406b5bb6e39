"""Each Python snippet of docs/ runs as it stands there, and what the pages list is all there is."""

from __future__ import annotations

import importlib.util
import os
import pkgutil
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dhaga._kernel import errors
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


# ---- the path of examples


EXAMPLES = (DOCS / "examples.md").read_text()
PRINTS = re.findall(r"^<!-- prints -->\n```\n([^\n]+)\n```\n\n```text\n(.*?)^```$", EXAMPLES, re.MULTILINE | re.DOTALL)


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


def test_the_errors_index_lists_every_message_of_the_source() -> None:
    index = messages_index()
    page = index.explained()
    found = index.messages()
    assert len(found) > 200
    assert [message for message in found if index.shown(message.text) not in page] == []


def test_each_cause_and_cure_is_of_a_message_in_the_source() -> None:
    """A message that was reworded or removed: change its text in docs/reference/errors.toml, or remove its entry."""
    index = messages_index()
    texts = {message.text for message in index.messages()}
    cures = index.cures()
    assert [each["text"] for each in cures if each["text"] not in texts] == []
    assert len(cures) >= 60 and all(each["cause"] and each["cure"] for each in cures)
    assert [text for text, times in Counter(each["text"] for each in cures).items() if times > 1] == []


def test_each_message_of_the_errors_index_has_an_anchor_of_its_own() -> None:
    index = messages_index()
    found = index.messages()
    anchors = index.anchors_of(found)
    page = index.explained()
    assert len(set(anchors.values())) == len(found)
    assert [anchor for anchor in anchors.values() if page.count(f"{{#{anchor}}}[¶](#{anchor})") != 1] == []
    assert all(re.fullmatch(r"[a-z0-9_-]+", anchor) for anchor in anchors.values())


def test_the_address_at_the_end_of_an_error_leads_to_its_heading() -> None:
    page = PAGES["reference/errors.md"].read_text() + messages_index().explained()
    for error in (errors.Deadlock, errors.LeftBehind, errors.ParkError, errors.PatchError):
        assert f"\n## {error.__name__}\n" in page


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


def test_the_filter_shows_what_has_all_words_and_unfolds_it(scripted: Any) -> None:
    def shown() -> list[str]:
        elements = "[...document.querySelectorAll('h2, dt, li')].filter((each) => each.checkVisibility())"
        return scripted.execute_script(f"return {elements}.map((each) => each.textContent)")  # type: ignore[no-any-return]

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


def test_the_sidebar_is_short_and_every_page_is_named_once() -> None:
    trees = {name: re.findall(r"```{toctree}\n(.*?)```", path.read_text(), re.DOTALL) for name, path in PAGES.items()}
    named = [
        os.path.normpath(Path(name).parent / line) + ".md"
        for name, found in trees.items()
        for tree in found
        for line in tree.splitlines()
        if line and not line.startswith(":") and "*" not in line
    ]
    assert [name for name, times in Counter(named).items() if times > 1] == []
    written = {name for name in PAGES if "/api/" not in name}
    assert written - set(named) == {"index.md", "404.md"}
    in_sidebar = [line for tree in trees["index.md"] for line in tree.splitlines() if line and line[0] != ":"]
    assert len(in_sidebar) <= 32


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
                try:
                    pkgutil.resolve_name(found)
                except (ImportError, AttributeError):
                    missing.append(f"{name}: {found}")
    assert missing == []
