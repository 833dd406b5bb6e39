"""Writes a page for each public module into `reference/api/`, which Git ignores: autodoc fills it from docstrings.

The index of the modules, and that of the names on each page, have a line each: the first sentence of the docstring.
"""

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from sphinx.application import Sphinx

import dhaga

PACKAGE = Path(dhaga.__file__).parent
LEFT_OUT = frozenset(
    f"dhaga.integrations.{name}"
    for name in (
        "curl_cffi",
        "ipython",
        "ldap",
        "mariadb",
        "mysqlclient",
        "psycopg",
        "psycopg2",
        "pymssql",
        "pyopenssl",
        "snowflake",
        "sqlalchemy",
        "trio",
        "zmq",
    )
)
"""They import the package that they are for; howto/ describes them."""
PLACEHOLDER = "<!-- the modules -->"
INDEXED = 4
"""Names from which on a page begins with an index of them."""


def public_modules() -> Iterator[str]:
    """Give the names of the public modules: those without an underscore in their path."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
        if ".compat." in name:  # gevent's and eventlet's documents describe them
            continue
        if "._" not in name and name not in LEFT_OUT and name not in ("dhaga.__main__", "dhaga.integrations"):
            yield name


def public_names(module: ModuleType) -> dict[str, Any]:
    """Return what a module offers: its `__all__`, else what is defined in it."""
    if names := getattr(module, "__all__", None):
        return {name: getattr(module, name) for name in names}
    own = {name: each for name, each in vars(module).items() if getattr(each, "__module__", "") == module.__name__}
    return {name: each for name, each in own.items() if not name.startswith("_")}


def homes() -> dict[int, str]:
    """Map each object of ours to the module whose page describes it: the first of those that offer it."""
    found: dict[int, str] = {}
    for module in sorted(public_modules(), key=lambda name: (name != "dhaga", name == "dhaga.thread", name)):
        for name, value in public_names(importlib.import_module(module)).items():
            if is_ours(module, name, value):
                found.setdefault(id(value), module)
    return found


def is_ours(module: str, name: str, value: Any) -> bool:
    """Return whether a value was made by Dhaga; a constant is not if the standard module has the same."""
    if isinstance(value, ModuleType):
        return False
    made_in = getattr(value, "__module__", None)
    if made_in is not None:
        return str(made_in).startswith("dhaga")
    standard = module.removeprefix("dhaga.")
    return standard not in sys.stdlib_module_names or not hasattr(importlib.import_module(standard), name)


def page(name: str, home: dict[int, str]) -> str:
    """Return the text of a module's page: its own names in full, others as lists."""
    names = public_names(importlib.import_module(name))
    members = [each for each, value in names.items() if home.get(id(value)) == name]
    described = [f"   :members: {', '.join(members)}"] if members else []
    lines = [f"# {name}", "", "```{eval-rst}", f".. automodule:: {name}", *described, "```", ""]
    elsewhere: dict[str, list[str]] = {}
    for each in sorted(names.keys() - set(members)):
        elsewhere.setdefault(home.get(id(names[each]), "standard"), []).append(f"`{each}`")
    for module, found in sorted(elsewhere.items()):
        if module != "standard":
            where = f"Described under [{module}]({module}.md)"
        elif (standard := name.removeprefix("dhaga.")) in sys.stdlib_module_names:
            where = f"The same as in the standard `{standard}`"
        else:
            where = "Also here"
        lines += [f"{where}: {', '.join(found)}.", ""]
    return "\n".join(lines)


def add_names(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Add the index of its names to the description of a module."""
    members = [] if what != "module" else [each for each in options.get("members") or () if each]
    if len(members) >= INDEXED:
        lines += [".. list-table::", "   :class: names", ""]
        for each in sorted(members, key=str.lower):
            words = first_sentence(getattr(value, each))
            kind = type(getattr(value, each)).__name__
            name_of_it = f":py:obj:`~{name}.{each}`" if words else f"``{each}``"
            lines += [f"   * - {name_of_it}", f"     - {words or f'a constant of type ``{kind}``'}"]
        lines.append("")


def first_sentence(value: Any) -> str:
    """Return how the docstring of a module, class or function begins; a constant has only that of its class."""
    if not (inspect.ismodule(value) or callable(value)):
        return ""
    text = " ".join((inspect.getdoc(value) or "").partition("\n\n")[0].split())
    return re.split(r"[.:;] (?=[A-Z])", text)[0].rstrip(".:;")


def fill(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put the index of the modules in where the page has its placeholder."""
    if PLACEHOLDER in source[0]:
        words = {each: first_sentence(importlib.import_module(each)).replace("``", "`") for each in public_modules()}
        lines = [f"| [{each}](api/{each}.md) | {text} |" for each, text in words.items()]
        source[0] = source[0].replace(PLACEHOLDER, "\n".join(["| module | what it has |", "|---|---|", *lines]))


def write_pages(app: Sphinx) -> None:
    """Write the pages whose text has changed, and remove those of modules that are gone."""
    folder = Path(app.srcdir) / "reference" / "api"
    folder.mkdir(exist_ok=True)
    home = homes()
    pages = {f"{name}.md": page(name, home) for name in public_modules()}
    for path in folder.glob("*.md"):
        if path.name not in pages:
            path.unlink()
    for name, text in pages.items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("builder-inited", write_pages)
    app.connect("source-read", fill)
    app.connect("autodoc-process-docstring", add_names, priority=600)  # after docstring_form.py
    return {"parallel_read_safe": True}
