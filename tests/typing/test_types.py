"""What type checkers know of Dhaga: pyright on the claims, which `make types` gives to mypy, and how much is typed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.snippets import ROOT, snippets

pytestmark = [pytest.mark.once, pytest.mark.process]
pytest.importorskip("pyright", reason="pyright is not installed: the `test` dependency group has it")

CLAIMS = Path(__file__).with_name("claims.py")
TYPED = 0.96


def pyright(*arguments, cwd):
    # --verifytypes looks for the package beside the first python on PATH, and takes a checkout in cwd for no package.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    command = [sys.executable, "-m", "pyright", "--outputjson", *arguments]
    run = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert run.stdout.startswith("{"), run.stderr
    return json.loads(run.stdout)


@pytest.mark.long("runs pyright")
def test_pyright_agrees_with_the_claims(tmp_path):
    report = pyright(str(CLAIMS), cwd=tmp_path)
    assert report["summary"]["filesAnalyzed"] == 1
    assert report["generalDiagnostics"] == []


@pytest.mark.long("runs pyright")
def test_pyright_reports_each_expected_error(tmp_path):
    bare = tmp_path / "claims.py"
    text = CLAIMS.read_text()
    expected = {number for number, line in enumerate(text.splitlines(), 1) if "  # type: ignore[" in line}
    bare.write_text("\n".join(line.partition("  # type: ignore[")[0] for line in text.splitlines()))
    errors = pyright(str(bare), cwd=tmp_path)["generalDiagnostics"]
    assert {error["range"]["start"]["line"] + 1 for error in errors} == expected


@pytest.mark.long("runs pyright over all pages")
def test_programs_of_the_pages_use_no_name_that_may_be_unbound(tmp_path):
    """A scope may swallow a cancel, and says so by the type of its ``__exit__``."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]
    places = {}
    for page in pages:
        for snippet in snippets(page.read_text()):
            file = tmp_path / f"program_{len(places)}.py"
            places[file.name] = f"{page.relative_to(ROOT)}:{snippet.line}"
            file.write_text(snippet.code)
    (tmp_path / "pyrightconfig.json").write_text('{"reportPossiblyUnboundVariable": "error"}')
    found = pyright("-p", str(tmp_path), cwd=tmp_path)["generalDiagnostics"]
    unbound = [each for each in found if each.get("rule") == "reportPossiblyUnboundVariable"]
    assert len(places) > 50
    assert [(places[Path(each["file"]).name], each["message"]) for each in unbound] == []


@pytest.mark.long("runs pyright over all of dhaga/")
def test_public_names_are_typed(tmp_path):
    """Including those of gevent and eventlet, many of which are dynamic."""
    symbols = pyright("--verifytypes", "dhaga", "--ignoreexternal", cwd=tmp_path)["typeCompleteness"]["symbols"]
    exported = [each for each in symbols if each["isExported"]]
    unclear = sorted(each["name"] for each in exported if each["isTypeAmbiguous"] or not each["isTypeKnown"])
    assert len(exported) - len(unclear) > 1500
    assert 1 - len(unclear) / len(exported) > TYPED, unclear
