"""What the environment asks for, in processes that are started so."""

from __future__ import annotations

from pathlib import Path

from tests.kit import scripts

LOCKED = """
    import dhaga
    from dhaga import debug
    from dhaga._sync.lock import Lock
    debug.watch(60)  # the one that is there reports what a busy machine does
    lock = Lock()
    dhaga.spawn(lock.acquire).join()
    try:
        lock.acquire()
    except dhaga.Deadlock:
        print("deadlock")
    print(dhaga.debug._remote.inspector.inspector.path.exists())
"""


def test_a_process_with_an_inspector_still_finds_deadlocks_and_ends(folder: Path) -> None:
    assert scripts.prints(LOCKED, DHAGA_DEBUG="1") == ["deadlock", "True"]
    assert list(folder.iterdir()) == []


def test_what_cannot_be_had_is_a_warning_and_the_program_goes_on(folder: Path) -> None:
    folder.mkdir(mode=0o755)
    outcome = scripts.run("import dhaga; print('goes on')", DHAGA_DEBUG="1", DHAGA_DUMP_SIGNAL="KILL")
    assert (outcome.status, outcome.lines) == (0, ["goes on"])
    assert "that the environment asks for could not be started" in outcome.err
