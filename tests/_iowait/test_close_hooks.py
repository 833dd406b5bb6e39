from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from dhaga._iowait.close_hooks import add_close_hook, remove_close_hook
from dhaga._iowait.fd_ops import close
from dhaga._kernel import hooks


@pytest.fixture
def fd() -> Iterator[int]:
    fd = os.open(os.devnull, os.O_RDONLY)
    yield fd
    assert fd not in hooks.before_fd_close
    os.close(fd)


def test_each_wait_has_its_hook_until_it_leaves(fd: int) -> None:
    called: list[str] = []
    first, second = (lambda: called.append("first")), (lambda: called.append("second"))
    add_close_hook(fd, first)
    add_close_hook(fd, second)
    remove_close_hook(fd, first)
    close(os.dup2(fd, os.dup(fd)))  # another number
    assert not called
    duplicate = os.dup(fd)
    close(fd)
    assert called == ["second"]
    os.dup2(duplicate, fd)
    os.close(duplicate)
    remove_close_hook(fd, second)


def test_a_hook_that_is_not_there_is_left_in_silence(fd: int) -> None:
    remove_close_hook(fd, lambda: None)


def test_a_child_forgets_the_waits_of_its_parent(fd: int) -> None:
    add_close_hook(fd, lambda: None)
    child = os.fork()
    if not child:
        os._exit(len(hooks.before_fd_close))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    hooks.before_fd_close.clear()
