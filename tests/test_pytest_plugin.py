"""The pytest plugin: what a marked test is called in, what it may leave, and by which seed it is repeated."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from dhaga import debug, testing
from dhaga._kernel import hooks
from tests.kit.scripts import Program, run

ROOT = Path(__file__).parents[1]
HEAD = """
import dhaga, pytest

def in_dhaga():
    return isinstance(dhaga.current(), dhaga.Dhaga)
"""
ALONE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "CI": "", "BUILD_NUMBER": ""}
"""The plugin is named by each run here, so that it need not be installed; no other one is of use. Nor does pytest tell
more, and tell it twice, as it does in the CI of somebody."""

OPTIONS = ("-p", "dhaga.pytest_plugin", "-p", "no:faulthandler", "-p", "no:cacheprovider")

Tests = Callable[..., pytest.RunResult]


@pytest.fixture
def tests(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Tests:
    """Give a function that runs a text of tests, in this process."""
    for name, value in ALONE.items():
        monkeypatch.setenv(name, value)

    def run_tests(text: str, *options: str) -> pytest.RunResult:
        pytester.makepyfile(test_it=HEAD + text)
        return pytester.runpytest_inprocess(*OPTIONS, *options, no_reraise_ctrlc=True)

    return run_tests


# ---- what is called in a dhaga


def test_marked_functions_methods_and_test_cases_are_called_in_dhagas_their_fixtures_in_main_code(
    tests: Tests,
) -> None:
    done = tests("""
import unittest

@pytest.fixture
def thing():
    assert not in_dhaga()
    yield 5
    assert not in_dhaga()

@pytest.mark.dhaga
@pytest.mark.parametrize("n", [1, 2])
def test_function(n, thing):
    dhaga.sleep(0)
    assert in_dhaga() and thing == 5
    assert dhaga.current().name == f"test_function[{n}]"

@pytest.mark.dhaga(timeout=60)
class TestClass:
    def test_method(self, thing, capsys):
        print("in a dhaga")
        assert in_dhaga() and capsys.readouterr().out == "in a dhaga\\n"

@pytest.mark.dhaga(60)
class TestCase(unittest.TestCase):
    def setUp(self):
        assert not in_dhaga()
        self.thing = 5

    def test_case(self):
        assert in_dhaga()
        self.assertEqual(self.thing, 5)

    def test_skipped(self):
        self.skipTest("in a dhaga")

def test_unmarked():
    assert not in_dhaga()
""")
    done.assert_outcomes(passed=5, skipped=1)


def test_a_module_may_be_marked(tests: Tests) -> None:
    tests("pytestmark = pytest.mark.dhaga\ndef test_function(): assert in_dhaga()").assert_outcomes(passed=1)


def test_outcomes_come_out_of_a_dhaga_as_they_are(tests: Tests) -> None:
    done = tests("""
pytestmark = pytest.mark.dhaga

def test_skips():
    pytest.skip("in a dhaga")

def test_xfails():
    pytest.xfail("in a dhaga")

@pytest.mark.xfail(raises=LookupError, strict=True)
def test_raises():
    raise LookupError

@pytest.mark.skip
async def test_is_not_even_called(): ...

def test_fails():
    number = 1
    assert number == 2, "in a dhaga"

def test_exits():
    raise SystemExit(3)

def test_goes_on(): ...
""")
    done.assert_outcomes(passed=1, skipped=2, xfailed=2, failed=2)
    done.stdout.fnmatch_lines(["*assert number == 2*", "*AssertionError: in a dhaga", "*SystemExit: 3"])
    done.stdout.no_fnmatch_line("*pytest_plugin*")


def test_only_the_first_failure_counts_where_pytest_is_told_so(tests: Tests) -> None:
    done = tests("@pytest.mark.dhaga\n@pytest.mark.parametrize('n', [1, 2])\ndef test_fails(n): assert not n", "-x")
    done.assert_outcomes(failed=1)


@pytest.mark.parametrize("kind", ["async def test_it(): ...", "async def test_it(): yield"])
def test_a_coroutine_function_is_refused_with_a_way_out(tests: Tests, kind: str) -> None:
    done = tests(f"@pytest.mark.dhaga\n{kind}")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["test_it is a coroutine function, and a dhaga calls plain ones: *dhaga.await_(*"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("timeout=0", "a timeout is seconds above 0, or None, and not 0"),
        ("timeout='5'", "a timeout is seconds above 0, or None, and not '5'"),
        ("float('nan')", "a timeout is seconds above 0, or None, and not nan"),
        ("1, 2", "takes one argument, timeout: too many positional arguments"),
        ("seconds=5", "takes one argument, timeout: got an unexpected keyword argument 'seconds'"),
    ],
)
def test_a_mark_that_cannot_be_meant_fails_its_test(tests: Tests, arguments: str, message: str) -> None:
    done = tests(f"@pytest.mark.dhaga({arguments})\ndef test_it(): ...")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines([f"@pytest.mark.dhaga*{message}"])


def test_pytest_knows_the_mark_and_the_fixture(tests: Tests) -> None:
    tests("", "--markers").stdout.fnmatch_lines(["@pytest.mark.dhaga(timeout=None): *"])
    tests("", "--fixtures").stdout.fnmatch_lines(["dhaga_clock*"])


# ---- what is left over


def test_who_is_left_over_is_named_with_the_place_of_its_spawn_and_ended(tests: Tests) -> None:
    done = tests(
        """
from dhaga import threading

def waits():
    try:
        dhaga.sleep(1000)
    finally:
        print("finally")

def helper():
    dhaga.spawn(waits, name="left")  # here

@pytest.mark.dhaga
def test_leaves():
    helper()
    threading.Thread(target=waits, name="thread").start()  # there
    dhaga.spawn(waits, name="demon", daemon=True)
    dhaga.spawn(int).join()
    dhaga.sleep(0.001)

@pytest.mark.dhaga
def test_sees_nobody():
    assert dhaga.current().scheduler.live == {dhaga.current()}
""",
    )
    done.assert_outcomes(passed=1, failed=1)
    lines = [""] + Path("test_it.py").read_text().splitlines()
    here, there = (next(n for n, line in enumerate(lines) if line.endswith(mark)) for mark in ("# here", "# there"))
    done.stdout.fnmatch_lines([
        "test_leaves has left over 2 of its dhagas:",
        f"  <Dhaga left WAITING sleep>, spawned at *test_it.py:{here} in helper",
        f"  <Dhaga thread WAITING sleep>, spawned at *test_it.py:{there} in test_leaves",
    ])  # fmt: skip
    assert done.outlines.count("finally") == 3
    done.stdout.no_fnmatch_line("*pytest_plugin*")
    done.stdout.no_fnmatch_line("*All traceback entries are hidden*")


def test_one_that_is_spawned_by_a_cancelled_one_ends_with_its_test(tests: Tests) -> None:
    tests(
        """
@pytest.mark.dhaga
def test_leaves():
    def spawns_at_its_end():
        try:
            dhaga.sleep(100)
        finally:
            dhaga.spawn(dhaga.sleep, 100, daemon=True)
    dhaga.spawn(spawns_at_its_end, daemon=True)
    dhaga.sleep(0)

def test_sees_nobody():
    from dhaga.pytest_plugin import live_dhagas
    assert not live_dhagas()
"""
    ).assert_outcomes(passed=2)


def test_who_is_left_over_in_another_os_thread_is_named_too(tests: Tests) -> None:
    done = tests("""
@pytest.fixture
def io():
    with dhaga.Scheduler("io") as io:
        yield io

@pytest.mark.dhaga
def test_leaves(io):
    io.spawn(dhaga.sleep, 1000, name="far")

@pytest.mark.dhaga
def test_waits(io):
    for _ in range(100):
        io.spawn(dhaga.sleep, 0).join()
""")
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(["  <Dhaga far *>, spawned at *test_it.py:* in test_leaves"])


def test_a_crowd_that_is_left_over_is_counted(tests: Tests) -> None:
    done = tests("""
@pytest.mark.dhaga
def test_leaves():
    for number in range(100):
        dhaga.spawn(dhaga.sleep, 1000, name=f"d{number}")
""")
    done.stdout.fnmatch_lines(["test_leaves has left over 100 of its dhagas:", "  <Dhaga d19 *", "  ... and 80 more"])
    done.stdout.no_fnmatch_line("*<Dhaga d20*")


def test_what_a_fixture_has_spawned_may_stay(tests: Tests) -> None:
    done = tests("""
@pytest.fixture
def server():
    server = dhaga.spawn(dhaga.park, "server")
    yield server
    assert server.state == "WAITING"
    server.wake()
    server.join()

@pytest.mark.dhaga
def test_uses_it(server):
    dhaga.sleep(0)
    assert server.is_alive()
""")
    done.assert_outcomes(passed=1)


def test_the_tests_own_error_comes_first_and_who_is_left_ends_all_the_same(tests: Tests) -> None:
    done = tests("""
@pytest.mark.dhaga
def test_fails():
    dhaga.spawn(dhaga.sleep, 1000)
    raise LookupError("its own")

def test_sees_nobody():
    assert not dhaga.current().scheduler.live
""")
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(["E*LookupError: its own"])
    done.stdout.no_fnmatch_line("*left over*")


def test_recording_where_dhagas_are_spawned_goes_on_if_it_was_on(tests: Tests) -> None:
    code = "@pytest.mark.dhaga\ndef test_it(): ..."
    assert hooks.on_spawn is None
    tests(code)
    assert hooks.on_spawn is None
    debug.record_origins()
    try:
        tests(code)
        assert hooks.on_spawn is not None
    finally:
        debug.record_origins(False)


# ---- ends that come from outside


def test_a_test_that_takes_too_long_is_ended_and_the_dump_tells_where_everybody_was(tests: Tests) -> None:
    done = tests("""
@pytest.mark.dhaga(timeout=1000)
def test_slow(dhaga_clock):
    with dhaga.Scope() as scope:
        scope.spawn(dhaga.sleep, 5000, name="child")

@pytest.mark.dhaga(timeout=1000)
def test_has_a_timeout_of_its_own(dhaga_clock):
    with dhaga.Timeout(1):
        dhaga.sleep(5)
""")
    done.assert_outcomes(failed=2)
    text = done.stdout.str()
    dump = ["*  test_slow WAITING*", "*  child WAITING*sleep, in <Scope*"]
    done.stdout.fnmatch_lines(["E*TimeoutError: test_slow was not done within 1000 s of the virtual clock", *dump])
    noted = [line for line in text.splitlines() if line.startswith("E  ")]
    assert not any("main code RUNNING" in line or "pluggy" in line for line in noted)
    done.stdout.fnmatch_lines(["E*TimeoutError: not done within 1 s"])
    assert text.count("scheduler virtual (implicit)") == 1


def test_a_test_in_which_everybody_waits_for_good_is_told_so(tests: Tests) -> None:
    done = tests("@pytest.mark.dhaga\ndef test_waits(): dhaga.park('nothing')")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*Deadlock: every dhaga waits*", "*test_waits: waits for nothing"])


def test_ctrl_c_ends_the_run_and_lets_every_finally_run(tmp_path: Path) -> None:
    path = tmp_path / "test_it.py"
    path.write_text(f"""{HEAD}
def waits(name):
    try:
        dhaga.sleep(1000)
    finally:
        print("finally", name)

@pytest.mark.dhaga
def test_waits():
    dhaga.spawn(waits, "child")
    dhaga.sleep(0.01)
    print("ready")
    waits("test")

def test_is_not_run():
    print("run")
""")
    command = f"import pytest, sys; sys.exit(pytest.main(['-qs', {str(path)!r}, *{OPTIONS!r}]))"
    done = Program(command, **ALONE).interrupt_at("ready").outcome()
    assert done.status == pytest.ExitCode.INTERRUPTED
    assert sorted(line for line in done.lines if line.startswith("finally")) == ["finally child", "finally test"]
    assert "KeyboardInterrupt" in done.out and "run" not in done.lines


def test_an_interrupt_raised_in_a_dhaga_ends_the_run(tests: Tests) -> None:
    done = tests("@pytest.mark.dhaga\ndef test_it(): raise KeyboardInterrupt\ndef test_is_not_run(): ...")
    assert done.ret == pytest.ExitCode.INTERRUPTED
    done.assert_outcomes()


# ---- the clock and the seed


def test_the_clock_jumps_for_marked_tests_and_for_others(tests: Tests) -> None:
    done = tests("""
@pytest.mark.dhaga
def test_marked(dhaga_clock):
    dhaga.sleep(1e6)
    assert dhaga_clock() == 1e6

def test_unmarked(dhaga_clock):
    dhaga.sleep(1e6)
    assert dhaga_clock() == 1e6

def test_leaves(dhaga_clock):
    dhaga.spawn(dhaga.sleep, 1e6, name="left")

@pytest.mark.dhaga
def test_cannot_make_its_own():
    with pytest.raises(RuntimeError, match="the fixture dhaga_clock"):
        with dhaga.testing.virtual_clock():
            pass
""")
    done.assert_outcomes(passed=4, errors=1)
    done.stdout.fnmatch_lines(["E*AssertionError: left over: <Dhaga left NEW>"])


ORDER = """
@pytest.mark.parametrize("n", [1, 2])
def test_order(dhaga_clock, n):
    order = []

    def runs(number):
        dhaga.sleep(0)
        order.append(number)

    for each in [dhaga.spawn(runs, number) for number in range(10)]:
        each.join()
    print("order", order)
    assert order == list(range(10)) and n == 1

def test_passes(dhaga_clock): ...
"""


def orders(done: pytest.RunResult) -> list[str]:
    return [line for line in done.outlines if line.startswith("order ")]


def test_a_random_seed_is_told_by_its_failure_and_repeats_it(tests: Tests) -> None:
    done = tests(ORDER, "--dhaga-seed=random")
    seeds = re.findall(r"repeat it with --dhaga-seed (\d+)", done.stdout.str())
    assert len(seeds) == len(set(seeds)) == len(orders(done)) == 2
    for seed, order in zip(seeds, orders(done), strict=True):
        again = tests(ORDER, f"--dhaga-seed={seed}")
        assert set(orders(again)) == {order}
        assert again.stdout.str().count(f"repeat it with --dhaga-seed {seed}") == 2


def test_without_a_seed_nothing_is_shuffled_nor_told(tests: Tests) -> None:
    done = tests(ORDER)
    done.assert_outcomes(passed=2, failed=1)
    assert orders(done) == [f"order {list(range(10))}"]
    done.stdout.no_fnmatch_line("*--dhaga-seed*")


def test_a_conftest_may_ask_for_the_seed_and_the_run_around_keeps_its_own(
    tests: Tests, pytester: pytest.Pytester
) -> None:
    before = testing.seed
    pytester.makeconftest("""
        from dhaga import testing

        def pytest_configure(config):
            config.stash_of_conftest = testing.seed

        def pytest_report_header(config):
            return f"seen: {config.stash_of_conftest}"
    """)
    tests("def test_it(): ...", "--dhaga-seed=17").stdout.fnmatch_lines(["seen: 17"])
    assert testing.seed == before


def test_what_is_no_seed_is_refused(tests: Tests) -> None:
    done = tests("", "--dhaga-seed=often")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["*--dhaga-seed: a whole number, or random, and not 'often'"])


# ---- the entry point


@pytest.mark.once
def test_pytest_finds_the_plugin_by_its_entry_point(tmp_path: Path) -> None:
    """By that of pyproject.toml, whether this checkout is installed or not."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    installed = tmp_path / "dhaga_as_installed-1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: dhaga-as-installed\nVersion: 1\n")
    points = "".join(f"{name} = {module}\n" for name, module in project["entry-points"]["pytest11"].items())
    (installed / "entry_points.txt").write_text(f"[pytest11]\n{points}")
    path = tmp_path / "test_it.py"
    path.write_text(f"{HEAD}\n@pytest.mark.dhaga\ndef test_it(dhaga_clock): assert in_dhaga()\n")
    command = "import pytest, sys; sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', '--strict-markers', {!r}]))"
    done = run(command.format(str(path)), PYTHONPATH=f"{tmp_path}:{ROOT}")
    assert (done.status, done.lines[-1].partition(" in ")[0]) == (0, "1 passed"), done


@pytest.mark.parametrize("mark", ["", "@pytest.mark.dhaga\n"])
def test_only_where_a_test_is_marked_all_is_imported(tmp_path: Path, mark: str) -> None:
    path = tmp_path / "test_it.py"
    path.write_text(f"import pytest\n{mark}def test_it(): ...\n")
    command = f"""
import pytest, sys
status = pytest.main(["-q", {str(path)!r}, *{OPTIONS!r}])
print("imported" if "dhaga.debug" in sys.modules else "saved")
sys.exit(status)
"""
    done = run(command, **ALONE)
    assert (done.status, done.err) == (0, "")
    assert done.lines[-1] == ("imported" if mark else "saved")


# ---- simulations


@pytest.mark.long("runs pytest twice")
def test_a_simulated_test_fails_with_its_report_and_repeats_by_its_seed(tests: Tests) -> None:
    text = """
import threading

@pytest.mark.dhaga_simulated(seeds=300)
def test_race(dhaga_simulation):
    dhaga_simulation.always(lambda: True)
    total = []
    def add():
        seen = len(total)
        total.append(seen)
    threads = [threading.Thread(target=add) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert total == [0, 1]

@pytest.mark.dhaga_simulated(seeds=50, tasks=True)
def test_order_of_tasks(dhaga_simulation):
    import asyncio
    begun = []
    async def begin(name):
        begun.append(name)
    async def main():
        await asyncio.gather(begin("first"), begin("second"))
    asyncio.run(main())
    assert begun == ["first", "second"]

@pytest.mark.dhaga_simulated(sedes=3)
def test_mark(): ...

@pytest.mark.dhaga_simulated(seeds=3, faults={"faults": [{"kind": "reset", "at": 5}]})
def test_reset(dhaga_simulation):
    import socket
    with socket.create_server(("", 80)) as listener:
        with socket.create_connection(("localhost", 80)) as sock, listener.accept()[0]:
            with pytest.raises(ConnectionResetError):
                sock.recv(1)

@pytest.mark.dhaga_simulated(faults={"faults": [{"kind": "flood", "at": 5}]})
def test_flood(): ...
"""
    done = tests(text)
    done.assert_outcomes(failed=4, passed=1)
    done.stdout.fnmatch_lines(["*assert *'second', 'first'* == *'first', 'second'*"])
    done.stdout.fnmatch_lines(["*ValueError: the kind of a fault is partition, *, and not 'flood'"])
    done.stdout.fnmatch_lines(["*the simulation of seed * failed in main code: AssertionError*"])
    done.stdout.fnmatch_lines(["*the unshortened run: pytest --dhaga-seed *, for test_race"])
    done.stdout.fnmatch_lines(["*@pytest.mark.dhaga_simulated takes seeds, strategy, preempt, *"])


@pytest.mark.long("runs pytest")
def test_pytests_own_errors_count_in_a_simulated_test(tests: Tests) -> None:
    text = """
import threading

pytestmark = pytest.mark.dhaga_simulated(seeds=2, preempt=None)

def test_fail(): pytest.fail("always")

def test_raises_nothing():
    with pytest.raises(ValueError): pass

def test_fail_in_a_thread():
    thread = threading.Thread(target=lambda: pytest.fail("always"))
    thread.start()
    thread.join()

def test_skip(): pytest.skip("no server")

def test_xfail(): pytest.xfail("not yet")
"""
    done = tests(text, "-rs")
    done.assert_outcomes(failed=3, skipped=1, xfailed=1)
    done.stdout.fnmatch_lines(["*the simulation of seed 0 failed in *: Failed: always"])
    done.stdout.fnmatch_lines(["SKIPPED * no server"])
    done.stdout.no_fnmatch_line("*failed in main code: Skipped*")
