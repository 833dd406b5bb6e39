"""The fleet backup: its driver against a server, and its command line. Killed workers are in test_cluster_kill."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("celery")

from examples.backup import client
from examples.backup.rpc import Address, Client
from examples.backup.workers import UNITS, Unit, threads
from examples.cluster.driver import Driver, Timeouts
from examples.cluster.fleet import Fleet, grow
from examples.cluster.outcome import Outcome
from examples.cluster.tasks import Report, SourceBackup, Unsavable, look_into
from tests.examples.kit import ROOT, Service, as_nobody, picture, snapshots_of
from tests.examples.relay import Relay


@pytest.fixture
def unit() -> Unit:
    """The server runs on dhagas: those over threads are tested by themselves."""
    return UNITS["dhagas"]()


def connect(service: Service) -> Client:
    """A connection of a worker's."""
    unit = threads()
    return Client(unit, Address(*service.address, patience=20.0), unit.threading.Event())


def counted(service: Service) -> Counter[str]:
    """How many snapshots each source has."""
    return Counter(snapshot.source for snapshot in snapshots_of(service))


def once_each(sources: list[str]) -> Counter[str]:
    """What `counted` is to be."""
    return Counter(dict.fromkeys(sources, 1))


# ---- one source ----


def test_two_tasks_for_one_source_at_the_same_time_leave_one_snapshot(service: Service, tmp_path: Path) -> None:
    (source,) = grow(tmp_path, 1)
    begun = threading.Barrier(2)
    reports = [Report("one"), Report("other")]

    class Slow(SourceBackup):
        def problem(self, path: bytes, text: str) -> None:
            raise AssertionError(text)

    def run(report: Report) -> None:
        working = connect(service)
        call = working.call

        def together(*request: object) -> Any:
            answer = call(*request)
            if request[0] == "begin":
                begun.wait(30)
            return answer

        working.call = together
        Slow(working).run(source, "run-x", report)
        working.close()

    both = [threading.Thread(target=run, args=(report,)) for report in reports]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join(30)
    assert [(report.files, report.was_there) for report in reports] == [(3, False), (3, False)]
    assert [snapshot.name for snapshot in snapshots_of(service)] == ["run-x"]


def test_a_source_that_cannot_be_listed_makes_no_snapshot(service: Service, tmp_path: Path) -> None:
    working = connect(service)
    with pytest.raises(Unsavable, match=r"cannot back up .*/nothing: No such file or directory"):
        SourceBackup(working).run(f"{tmp_path}/nothing", "name", Report("w"))
    working.close()
    assert snapshots_of(service) == []
    (tmp_path / "secret").mkdir(mode=0)
    with as_nobody(), pytest.raises(Unsavable, match="Permission denied"):
        look_into(f"{tmp_path}/secret")


# ---- the driver, with a broker and workers of its own making ----


class Mail:
    """An application for a driver: each task is run at once by `deliver`, which may also lose it."""

    def __init__(self, service: Service, deliver: Callable[[Mail, str, tuple[Any, ...]], None]) -> None:
        self.service = service
        self.deliver = deliver
        self.sent: list[str] = []
        self.results: dict[str, dict[str, Any]] = {}
        self.conf = self
        self.backend = self
        self.result_backend = ""

    def send_task(self, task: str, arguments: tuple[Any, ...], task_id: str) -> None:
        self.sent.append(arguments[0])
        self.deliver(self, task_id, arguments)

    def get_task_meta(self, task_id: str) -> dict[str, Any]:
        return self.results.get(task_id, {"status": "PENDING"})

    def forget(self, task_id: str) -> None:
        del self.results[task_id]

    def save(self, task_id: str, source: str, name: str) -> None:
        """Do what a worker does."""
        report = Report("w")
        working = connect(self.service)
        SourceBackup(working).run(source, name, report)
        working.close()
        self.results[task_id] = {"status": "SUCCESS", "result": vars(report)}


def drive(mail: Any, sources: list[str], resend_after: float = 0.3, give_up_after: float = 60.0) -> Outcome:
    """A run of a driver over these sources."""
    address = Address(*mail.service.address)
    driver = Driver(mail, address, "run", Fleet.of(sources), Timeouts(resend_after, give_up_after))
    return driver.run(lambda driver: None)


def test_a_task_that_is_lost_is_sent_again(service: Service, tmp_path: Path) -> None:
    def lose_the_first(mail: Mail, task_id: str, arguments: tuple[Any, ...]) -> None:
        if mail.sent.count(arguments[0]) > 1:
            mail.save(task_id, *arguments[:2])

    sources = grow(tmp_path, 4)
    mail = Mail(service, lose_the_first)
    outcome = drive(mail, sources)
    assert counted(service) == once_each(sources)
    assert Counter(mail.sent) == Counter(dict.fromkeys(sources, 2))
    assert (outcome.left, outcome.failed, len(outcome.reports)) == ([], [], 4)


def test_what_a_dead_worker_held_is_sent_again(service: Service, tmp_path: Path) -> None:
    dying: list[Client] = []

    def die_of_the_first(mail: Mail, task_id: str, arguments: tuple[Any, ...]) -> None:
        if mail.sent.count(arguments[0]) > 1:
            mail.save(task_id, *arguments[:2])
        else:
            dying.append(connect(service))
            dying[-1].call("begin", arguments[1], "host", arguments[0])

    def let_die(driver: Driver) -> None:
        if driver.held == len(sources):
            while dying:
                dying.pop().close()

    sources = grow(tmp_path, 3)
    mail: Any = Mail(service, die_of_the_first)
    driver = Driver(mail, Address(*service.address), "run", Fleet.of(sources), Timeouts(0.3))
    outcome = driver.run(let_die)
    assert outcome.most_held == 3
    assert counted(service) == once_each(sources)
    assert Counter(mail.sent) == Counter(dict.fromkeys(sources, 2))
    assert [one.falls for one in outcome.sources] == [1, 1, 1]


def test_a_source_that_fails_is_told_of_and_the_others_are_saved(service: Service, tmp_path: Path) -> None:
    def fail_one(mail: Mail, task_id: str, arguments: tuple[Any, ...]) -> None:
        if arguments[0].endswith("2"):
            mail.results[task_id] = {"status": "FAILURE", "result": Unsavable("no such thing")}
        elif arguments[0].endswith("1"):
            mail.results[task_id] = {"status": "FAILURE", "result": ZeroDivisionError("a fault")}
        else:
            mail.save(task_id, *arguments[:2])

    sources = grow(tmp_path, 3)
    outcome = drive(Mail(service, fail_one), sources)
    failures = [one.failure for one in outcome.sources]
    assert failures[0] == "" and failures[2] == "no such thing"
    assert failures[1].startswith(f"cannot back up {sources[1]}: ZeroDivisionError('a fault'), 5 times")
    assert counted(service) == once_each(sources[:1])


# ---- the command line ----


def command(*arguments: object) -> list[str]:
    """The command line of the cluster."""
    return [sys.executable, "-m", "examples.cluster", *map(str, arguments)]


def run_in_memory(service: Service, folder: Path, *arguments: object) -> list[str]:
    """A run of one process."""
    place = "{}:{}".format(*service.address)
    return command("run", "--to", place, "--broker", "memory://", "--folder", folder, "--json", *arguments)


def test_a_run_in_one_process_saves_what_can_be_saved_and_tells_of_the_rest(service: Service, tmp_path: Path) -> None:
    sources = grow(tmp_path / "fleet", 12)
    given = [*sources, sources[0] + "/", tmp_path / "nothing"]
    line = run_in_memory(service, tmp_path / "folder", *given)
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    assert (told["sources"], told["snapshots"], told["files"], told["left"]) == (13, 12, 36, [])
    assert told["failed"] == {f"{tmp_path}/nothing": f"cannot back up {tmp_path}/nothing: No such file or directory"}
    assert f"given twice, saved once: {sources[0]}/\n" in done.stderr
    assert "Traceback" not in done.stderr
    assert counted(service) == once_each(sources)
    (name,) = (one.name for one in snapshots_of(service) if one.source == sources[3])
    client.restore(service.plan(), name, str(tmp_path / "restored"))
    assert picture(tmp_path / "restored") == picture(Path(sources[3]))


@pytest.mark.parametrize("broker", ["memory://", pytest.param("filesystem://", marks=pytest.mark.slow)])
def test_ctrl_c_ends_a_run_and_the_next_goes_on_with_it(broker: str, service: Service, tmp_path: Path) -> None:
    sources = grow(tmp_path / "fleet", 30)
    with Relay(service.address, delay=0.03) as relay:
        line = run_in_memory(Service(service.unit, service.root, relay.address), tmp_path / "folder", *sources)
        line += ["--broker", broker, "--concurrency", "4"]
        process = subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            waiting = threading.Event()
            for _ in range(600):
                if counted(service).total() >= 3:
                    break
                waiting.wait(0.1)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=40)
        finally:
            process.kill()
            process.communicate()
        told = json.loads(out)
        assert (process.returncode, told["interrupted"]) == (130, True)
        assert "sources are left; start the same command again, and it goes on with them" in err
        assert "Traceback" not in err
        assert 3 <= told["snapshots"] < 30 and len(told["left"]) == 30 - told["snapshots"]
        relay.delay = 0.0
        again = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=60)
        assert (again.returncode, again.stderr) == (0, f"going on with run {told['run']}\n")
        assert json.loads(again.stdout)["were_there"] >= told["snapshots"]
    assert counted(service) == once_each(sources)
    assert list((tmp_path / "folder").glob("run-*")) == []
