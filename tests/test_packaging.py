"""What the distribution and the checkout promise: metadata, the wheel, the top level, the make targets."""

import re
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def files_in_git() -> list[str]:
    try:
        listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return [name for name in listing.split("\0") if name]


def test_installed_version_is_the_one_in_pyproject():
    try:
        installed = metadata.version("dhaga")
    except metadata.PackageNotFoundError:
        pytest.skip("dhaga runs from a checkout that is not installed")
    assert installed == PROJECT["version"]


def test_core_needs_greenlet_and_tornado_alone():
    names = [re.split(r"[^\w-]", dependency)[0] for dependency in PROJECT["dependencies"]]
    assert names == ["greenlet", "tornado"]


def test_the_wheel_holds_the_package_and_nothing_else(tmp_path):
    pytest.importorskip("hatchling")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name == f"dhaga-{PROJECT['version']}-py3-none-any.whl"

    names = set(zipfile.ZipFile(wheel).namelist())
    info = f"dhaga-{PROJECT['version']}.dist-info"
    sources = {path.relative_to(ROOT).as_posix() for path in (ROOT / "dhaga").rglob("*.py")}
    others = {"dhaga/py.typed", "dhaga/debug/page.html"}
    assert {name for name in names if not name.startswith(f"{info}/")} == sources | others
    assert f"{info}/licenses/LICENSE" in names


def test_the_top_level_holds_nothing_unexpected():
    folders = {"dhaga", "tests", "examples", "benchmarks"}
    files = {"pyproject.toml", "Makefile", "LICENSE", "README.md", "CHANGES.md"}
    top = {name.partition("/")[0] for name in files_in_git()}
    assert {name for name in top if not name.startswith(".")} <= folders | files


def test_the_newest_entry_in_changes_is_this_version():
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGES.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == PROJECT["version"]


def test_every_python_that_is_tested_is_declared():
    declared = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    (tested,) = re.findall(r"^tested='(.+)'$", (ROOT / ".ci/find-python").read_text(encoding="utf-8"), re.MULTILINE)
    assert declared == tested.split()[::-1]
    assert PROJECT["requires-python"] == f">={declared[0]}"


def test_make_help_lists_every_target_and_readme_names_no_other():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (phony,) = re.findall(r"^\.PHONY: (.+)$", makefile, re.MULTILINE)
    listed = set(re.findall(r"^([a-z%-]+):.*## ", makefile, re.MULTILINE))
    assert listed == {*phony.split(), "test-%"}

    readme = ROOT / "README.md"
    if readme.exists():
        named = re.findall(r"(?:`|^    |\$ )make ([a-z-]+)", readme.read_text(encoding="utf-8"), re.MULTILINE)
        assert set(named) <= listed
