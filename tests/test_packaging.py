"""What the distribution and the checkout promise: metadata, the wheel, the top level, the make targets."""

import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from functools import partial
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from dhaga._kernel.interpreter.requirements import FREE_THREADED
from tests.kit.links import link_targets

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
EXTRAS = PROJECT["optional-dependencies"]
WORKFLOWS = ROOT / ".github/workflows"


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
    names = {re.split(r"[^\w-]", dependency)[0] for dependency in PROJECT["dependencies"]}
    assert names == {"greenlet", "tornado"}


def build_sdist(folder):
    pytest.importorskip("hatchling")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.iterdir()
    return built


def test_the_extra_all_brings_every_optional_feature():
    (everything,) = EXTRAS["all"]
    named = re.fullmatch(r"dhaga\[(.+)\]", everything)[1].split(",")
    assert sorted(named) == sorted(EXTRAS.keys() - {"all", "examples"})


def test_what_developers_need_is_in_groups_and_not_published():
    assert {"bench", "dev", "examples", "packages", "test", "tools"} <= PYPROJECT["dependency-groups"].keys()
    assert not PYPROJECT["dependency-groups"].keys() & EXTRAS.keys() - {"examples"}


NEED_THE_LOCK = {"fastapi", "grpcio", "hdrhistogram", "lxml", "paramiko", "psycopg", "psycopg2-binary"}
NEED_THE_LOCK |= {"time-machine", "zstandard"}
"""Packages that tests on free-threaded Pythons go without."""


def requirements(group):
    """Return what a group asks for, by name, with the groups and extras in it resolved."""
    found = {}
    for each in (PYPROJECT["dependency-groups"] | EXTRAS)[group]:
        if isinstance(each, dict):
            found |= requirements(each["include-group"])
        elif own := re.fullmatch(r"dhaga\[(.+)\]", each):
            found |= {name: need for extra in own[1].split(",") for name, need in requirements(extra).items()}
        else:
            found[re.match(r"[\w.-]+", each)[0]] = each
    return found


def test_free_threaded_pythons_are_tested_with_the_same_packages_but_those_that_need_the_lock():
    everywhere, anywhere = requirements("test-free-threaded"), requirements("test")
    assert everywhere.items() <= anywhere.items()
    assert anywhere.keys() - everywhere.keys() == NEED_THE_LOCK


def test_each_classifier_is_one_that_an_index_knows():
    known = pytest.importorskip("trove_classifiers").classifiers
    assert set(PROJECT["classifiers"]) <= known
    assert PROJECT["classifiers"] == sorted(PROJECT["classifiers"], key=version_key)


def version_key(classifier):
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", classifier)]


@pytest.mark.long("builds an sdist of the whole checkout")
def test_the_sdist_holds_what_its_tests_need_and_no_reports(tmp_path):
    with tarfile.open(build_sdist(tmp_path)) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    in_git = {name for name in files_in_git() if (ROOT / name).exists()}
    left_out = {name for name in in_git - names if not name.startswith(".git")}
    assert left_out == {"benchmarks/results/report.html"}


@pytest.fixture
def checkout(tmp_path):
    """Copy what a wheel is built from, as it is in git."""
    pytest.importorskip("hatchling")
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore", "hatch_build.py"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "docs/reference").mkdir(parents=True)
    shutil.copy(ROOT / "docs/reference/errors.md", tmp_path / "docs/reference")
    shutil.copytree(ROOT / "dhaga", tmp_path / "dhaga", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    return tmp_path


def compiles():
    """Whether there are a compiler and the headers of this Python, which a machine may lack."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    return shutil.which(compiler) and (Path(sysconfig.get_path("include")) / "Python.h").exists()


def build(checkout, *arguments, **environ):
    """Build in a copy of the checkout. Returns: the file built, and what was said."""
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(checkout / "dist"), *arguments]
    kept = {name: value for name, value in os.environ.items() if name not in ("DHAGA_PURE", "CC")}
    done = subprocess.run(command, cwd=checkout, check=True, capture_output=True, text=True, env=kept | environ)
    (built,) = (checkout / "dist").iterdir()
    return built, [line for line in (done.stdout + done.stderr).splitlines() if built.name not in line]


PURE = f"dhaga-{PROJECT['version']}-py3-none-any.whl"
PARTS = ("_fast_paths", "_frame_chunks")
OTHERS = {
    *("dhaga/py.typed", "dhaga/debug/_remote/web_page.html", "dhaga/_cli/errors.md"),
    *(f"dhaga/_kernel/fast/{part}.pyi" for part in PARTS),
}


def test_the_wheel_holds_the_package_and_nothing_else(checkout):
    (checkout / "dhaga/_kernel/fast/_frame_chunks.cpython-399-alien.so").write_bytes(b"from an editable install")
    wheel, said = build(checkout, "--target", "wheel", DHAGA_PURE="1")
    assert (wheel.name, said) == (PURE, [])

    names = set(zipfile.ZipFile(wheel).namelist())
    info = f"dhaga-{PROJECT['version']}.dist-info"
    sources = {path.relative_to(ROOT).as_posix() for path in (ROOT / "dhaga").rglob("*.py")}
    sources.remove("dhaga/_pytest_entry/_dhaga_pytest.py")  # installed beside the package
    assert {name for name in names if not name.startswith(f"{info}/")} == sources | OTHERS | {"_dhaga_pytest.py"}
    assert f"{info}/licenses/LICENSE" in names


def test_the_metadata_needs_no_checkout_around_it(checkout):
    """What README links to by a path is a page of the site there, or a file of the repository."""
    wheel, _ = build(checkout, "--target", "wheel", DHAGA_PURE="1")
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(f"dhaga-{PROJECT['version']}.dist-info/METADATA").decode()
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = text[text.index("# Dhaga\n") :]
    site, repository = PROJECT["urls"]["Documentation"], PROJECT["urls"]["Source"]
    expected = [absolute(target, site, repository) for target in link_targets(readme)]
    assert len(expected) > 15 and link_targets(shown) == expected


def absolute(target, site, repository):
    """Return the address that stands for a link of README on the package index."""
    if "://" in target:
        return target
    path, hash, heading = target.partition("#")
    if path.startswith("docs/"):
        return f"{site}/{re.sub(r'[.]md$', '.html', path.removeprefix('docs/'))}{hash}{heading}"
    return f"{repository}/blob/main/{target}"


@pytest.mark.long("compiles the accelerator")
@pytest.mark.skipif(not compiles(), reason="no C compiler, or no headers of this Python")
def test_a_compiler_makes_a_wheel_for_this_platform_with_the_accelerator(checkout):
    wheel, said = build(checkout, "--target", "wheel", CFLAGS="-O0")
    version = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    platform = sysconfig.get_platform().split("-")[0]
    abi = f"{version}{'t' if FREE_THREADED else ''}"
    assert re.fullmatch(rf"dhaga-[\d.]+-{version}-{abi}-{platform}\w+\.whl", wheel.name)
    assert said == []
    compiled = [name for name in zipfile.ZipFile(wheel).namelist() if not name.endswith(".py")]
    modules = {f"dhaga/_kernel/fast/{part}{sysconfig.get_config_var('EXT_SUFFIX')}" for part in PARTS}
    assert {name for name in compiled if ".dist-info/" not in name} == OTHERS | modules
    assert not list((checkout / "dhaga").rglob("*.so"))


@pytest.mark.parametrize("compiler", ["/bin/false", "/no/such/compiler", "cc --no-such-option"])
def test_without_a_compiler_the_wheel_is_the_pure_one_after_a_line_of_warning(checkout, compiler):
    wheel, said = build(checkout, "--target", "wheel", CC=compiler)
    assert wheel.name == PURE
    (warning,) = said
    assert warning.startswith(f"dhaga is installed as pure Python, without its accelerator: {compiler.split()[0]}: ")


def test_on_macos_the_module_is_for_the_processors_that_the_tag_names(checkout, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(checkout))
    hook = importlib.import_module("hatch_build")
    commands = []
    config = {
        "CC": "clang",
        "CFLAGS": "-arch x86_64 -O2",
        "LDSHARED": "clang -bundle -arch x86_64",
        "EXT_SUFFIX": ".so",
        "MACOSX_DEPLOYMENT_TARGET": "11.0",
    }
    monkeypatch.setattr(hook.sysconfig, "get_config_var", config.get)
    monkeypatch.setattr(hook.sys, "platform", "darwin")
    for name, value in (("ARCHFLAGS", "-arch arm64"), ("MACOSX_DEPLOYMENT_TARGET", "12.0")):
        monkeypatch.setenv(name, value)
        monkeypatch.setattr(hook, "run", commands.append)
        hook.compiled(checkout / "dhaga/_kernel/fast/_frame_chunks.c", tmp_path)
    assert len(commands) == 4
    for command in commands:
        assert command[0] == "clang" and "x86_64" not in command
        assert command[command.index("-arch") + 1] == "arm64" and command.count("-arch") == 1
    assert hook.compiler_environment()["MACOSX_DEPLOYMENT_TARGET"] == "12.0"
    monkeypatch.delenv("MACOSX_DEPLOYMENT_TARGET")
    assert hook.compiler_environment()["MACOSX_DEPLOYMENT_TARGET"] == "11.0"


class EditableInstall:
    """The hook of an editable install of the copy of the checkout."""

    def __init__(self, checkout, monkeypatch):
        monkeypatch.delenv("DHAGA_PURE", raising=False)
        monkeypatch.syspath_prepend(str(checkout))
        monkeypatch.delitem(sys.modules, "hatch_build", raising=False)  # another copy's
        self.checkout = checkout
        self.module = importlib.import_module("hatch_build")
        self.warned = []

    def run(self):
        """Return the modules then found, whether the package counts as pure, and what else would be in its wheel."""
        data = {"force_include": {}, "pure_python": True, "infer_tag": False}
        app = SimpleNamespace(display_warning=self.warned.append)
        hook = self.module.AcceleratorHook(str(self.checkout), {}, None, None, "", "wheel", app)
        hook.initialize("editable", data)
        hook.finalize("editable", data, "")
        return sorted(path.name for path in self.modules()), data["pure_python"], data["force_include"]

    def modules(self):
        return list(self.checkout.rglob("*.so"))

    def compile_to(self, content, command):
        Path(command[command.index("-o") + 1]).write_bytes(content)


@pytest.fixture
def editable(checkout, monkeypatch):
    return EditableInstall(checkout, monkeypatch)


MODULES = [f"{part}{sysconfig.get_config_var('EXT_SUFFIX')}" for part in PARTS]


def test_an_editable_install_compiles_into_the_checkout_and_leaves_none_that_is_out_of_date(editable, monkeypatch):
    for name, value in (("CC", "/bin/false"), ("DHAGA_PURE", "1")):
        with monkeypatch.context() as patch:
            patch.setattr(editable.module, "run", partial(editable.compile_to, b"compiled"))
            assert editable.run() == (MODULES, False, {})
        assert {module.read_bytes() for module in editable.modules()} == {b"compiled"}
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            assert editable.run() == ([], True, {})
    (warning,) = editable.warned
    assert "/bin/false" in warning


def test_an_install_replaces_a_compiled_module_at_once_as_other_environments_may_be_using_it(editable, monkeypatch):
    in_use = [editable.checkout / "dhaga/_kernel/fast" / module for module in MODULES]
    for module in in_use:
        module.write_bytes(b"in use")
    opened = [module.open("rb") for module in in_use]
    while_compiling = []

    def compile_something(command):
        while_compiling.extend(module.read_bytes() for module in in_use)
        editable.compile_to(b"new", command)

    monkeypatch.setattr(editable.module, "run", compile_something)
    assert editable.run() == (MODULES, False, {})
    assert while_compiling == [b"in use"] * 4 * len(in_use)
    assert [module.read_bytes() for module in in_use] == [b"new"] * len(in_use)
    for file in opened:
        with file:
            assert file.read() == b"in use"  # a mapped one would kill its process if it were written to


def test_the_source_distribution_can_be_compiled(checkout):
    sdist, said = build(checkout, "--target", "sdist")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "hatch_build.py",
        *(f"dhaga/_kernel/fast/{part}.c" for part in PARTS),
        "dhaga/_kernel/fast/accelerator.py",
    } <= names
    assert said == []


def test_the_top_level_holds_nothing_unexpected():
    folders = {"dhaga", "tests", "examples", "benchmarks", "docs"}
    files = {"pyproject.toml", "hatch_build.py", "Makefile", "LICENSE", "README.md", "CHANGES.md", "CONTRIBUTING.md"}
    top = {name.partition("/")[0] for name in files_in_git()}
    assert {name for name in top if not name.startswith(".")} <= folders | files


def test_the_newest_entry_in_changes_is_this_version():
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGES.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == PROJECT["version"]


def test_every_python_that_is_tested_is_declared():
    declared = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    (tested,) = re.findall(r"^tested='(.+)'$", (ROOT / ".ci/find-python").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(tested.split()) == declared
    assert tested.split()[0] == "3.14" and tested.split()[-1] == declared[0]
    assert PROJECT["requires-python"] == f">={declared[0]}"


def test_free_threaded_pythons_are_tested_in_ci():
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert "free_threaded=$(.ci/find-python --free-threaded)" in script and '"stress-$free_threaded"' in script


def test_make_help_lists_every_target_and_readme_names_no_other():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (phony,) = re.findall(r"^\.PHONY: (.+)$", makefile, re.MULTILINE)
    listed = set(re.findall(r"^([a-z0-9%-]+):.*## ", makefile, re.MULTILINE))
    assert listed == {*phony.split(), "test-%", "pure-%", "floors-%", "stdlib-%", "stress-%"}

    readme = ROOT / "README.md"
    if readme.exists():
        named = re.findall(r"(?:`|^    |\$ )make ([a-z-]+)", readme.read_text(encoding="utf-8"), re.MULTILINE)
        assert set(named) <= listed


def test_ci_runs_what_readme_promises_by_targets_that_there_are():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = set(re.findall(r"^\.PHONY: (.+)$", makefile, re.MULTILINE)[0].split())
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    steps = re.findall(r"step (\d+) make (?:--\S+ )*(.+)$", script.replace("\\\n", ""), re.MULTILINE)
    targets = [re.split(r"\s+\w+=", words)[0].split() for _, words in steps]
    assert targets[:2] == [["demo"], ["test"]]
    assert [f"step {seconds} make {words}" in script for seconds, words in steps[:2]] == [True, True]  # no option
    assert {each for step in targets for each in step} - {
        "$others",
        "$stdlib",
        "$floors",
        '"stress-$free_threaded"',
    } <= phony
    assert "$others" in script  # test-3.12 and its like: with `make test` that is `make test-all`
    assert "$stdlib" in script
    # A step that hangs takes its limit beside what the others take, 45 minutes: CI has 90.
    assert max(int(seconds) for seconds, _ in steps) <= 45 * 60


def test_workflows_run_targets_that_there_are_on_every_tested_python():
    yaml = pytest.importorskip("yaml")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = {*re.findall(r"^\.PHONY: (.+)$", makefile, re.MULTILINE)[0].split(), "test-%", "pure-%", "floors-%"}
    (tested,) = re.findall(r"^tested='(.+)'$", (ROOT / ".ci/find-python").read_text(encoding="utf-8"), re.MULTILINE)

    jobs = yaml.safe_load((WORKFLOWS / "tests.yml").read_text())["jobs"]
    matrices = [job["strategy"]["matrix"] for job in jobs.values() if "strategy" in job]
    assert set(tested.split()) <= {python for matrix in matrices for python in matrix.get("python", ())}
    named = {target for matrix in matrices for target in matrix.get("target", ())}
    others = [yaml.safe_load((WORKFLOWS / name).read_text())["jobs"] for name in ("release.yml", "weekly.yml")]
    for job in [*jobs.values(), *(job for each in others for job in each.values())]:
        for step in job.get("steps", ()):
            words = step.get("run", "").replace("${{ matrix.python }}", "%").split()
            if words[:1] == ["make"]:
                named |= {word for word in words[1:] if not word.startswith("-") and "=" not in word}
    assert named - {"${{", "}}", "matrix.target"} <= targets


def test_only_the_job_that_publishes_may_identify_itself_to_the_index():
    yaml = pytest.importorskip("yaml")
    jobs = yaml.safe_load((WORKFLOWS / "release.yml").read_text())["jobs"]
    assert [name for name, job in jobs.items() if "id-token" in job.get("permissions", {})] == ["publish"]
    assert jobs["publish"]["needs"] == "check" and jobs["check"]["needs"] == ["portable", "wheels"]
    assert {jobs[name]["needs"] for name in jobs["check"]["needs"]} == {"tests"}


def test_actions_are_pinned_by_commit_with_the_version_beside_it():
    used = [line for path in WORKFLOWS.glob("*.yml") for line in path.read_text().splitlines() if "uses: " in line]
    loose = [line for line in used if not re.search(r"@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line)]
    assert [line.split()[-1] for line in loose] == ["./.github/workflows/tests.yml"]
    assert len({line.partition("uses: ")[2] for line in used}) == len({action_of(line) for line in used})


def action_of(line):
    return line.partition("uses: ")[2].partition("@")[0]


FILES = [
    "dhaga-1.0.tar.gz",
    "dhaga-1.0-py3-none-any.whl",
    "dhaga-1.0-cp314-cp314-manylinux_2_17_x86_64.manylinux2014_x86_64.manylinux_2_28_x86_64.whl",
    "dhaga-1.0-cp315-cp315t-musllinux_1_2_aarch64.whl",
    "dhaga-1.0-cp311-cp311-macosx_11_0_arm64.whl",
]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (FILES, "an index takes these 5 files"),
        ([*FILES, "dhaga-1.0-cp313-cp313-linux_x86_64.whl"], "an index refuses the platform linux_x86_64"),
        (FILES[1:], "0 sdists instead of one"),
        ([FILES[0], *FILES[2:]], "no pure wheel"),
        ([*FILES, "dhaga-1.1-cp312-cp312-win_amd64.whl"], "several versions: 1.0, 1.1"),
        ([*FILES, "dhaga.whl"], "Invalid wheel filename"),
    ],
)
def test_files_that_an_index_refuses_or_that_are_missing_are_named(files, said):
    pytest.importorskip("packaging")
    command = [sys.executable, ROOT / ".ci/check-dist", *files]
    done = subprocess.run(command, capture_output=True, text=True)
    assert said in done.stdout and done.returncode == (files is not FILES), done.stderr


def test_each_folder_that_the_makefile_names_is_there():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"\btests/[\w/]+(?:\.py|\.ini|\.toml)?", makefile))
    beginnings = {name for name in named if name.endswith("_")}  # of wildcards
    assert {name for name in named - beginnings if not (ROOT / name).exists()} == set()
    assert all(list(ROOT.glob(f"{name}*.py")) for name in beginnings)


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_the_files_of_tests_that_make_names_exist() -> None:
    targets = ["test-kqueue", "test-simulated", "test-windows", "test-shuffled", "test-arm64"]
    command = ["make", "--dry-run", *targets, "DHAGA_WINDOWS=/none", "DHAGA_ARM64=/none"]
    environment = {name: value for name, value in os.environ.items() if "MAKE" not in name and name != "MFLAGS"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    names = set(re.findall(r"tests/[\w/]+\.py", done.stdout))
    assert len(names) > 100
    assert sorted(name for name in names if not (ROOT / name).exists()) == []
