"""What ``migrate --rewrite`` changes: each rule before and after, and that both programs print the same."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from tests.kit.migrations import outputs, reasons, rewritten

CHANGED = {
    "sleep as an attribute": (
        "import gevent\ngevent.sleep(0.001)  # a while\nprint(gevent.sleep(seconds=0))\n",
        "import dhaga\ndhaga.sleep(0.001)  # a while\nprint(dhaga.sleep(seconds=0))\n",
    ),
    "sleep by its name": (
        "from gevent import sleep as pause\npause(0)\nprint(callable(pause))\n",
        "from dhaga import sleep as pause\npause(0)\nprint(callable(pause))\n",
    ),
    "the library by another name": (
        "import eventlet as e, sys\ne.sleep()\nprint(sys.argv[0])\n",
        "import dhaga\nimport sys\ndhaga.sleep()\nprint(sys.argv[0])\n",
    ),
    "an import in a function": (
        "def pause():\n    import gevent\n    gevent.sleep(0)\n    return 1\n\n\nprint(pause())\n",
        "def pause():\n    import dhaga\n    dhaga.sleep(0)\n    return 1\n\n\nprint(pause())\n",
    ),
    "gevent's patch": (
        "from gevent import monkey; monkey.patch_all()\nimport threading\n\nprint(threading.Thread.__module__)\n",
        "import dhaga; dhaga.monkey.patch()\nimport threading\n\nprint(threading.Thread.__module__)\n",
    ),
    "eventlet's patch": (
        "import eventlet\neventlet.monkey_patch()\neventlet.sleep(0)\nprint(1)\n",
        "import dhaga\ndhaga.monkey.patch()\ndhaga.sleep(0)\nprint(1)\n",
    ),
    "a module": (
        "from gevent import socket\n\none, two = socket.socketpair()\none.sendall(b'x')\nprint(two.recv(1))\n",
        "from dhaga import socket\n\none, two = socket.socketpair()\none.sendall(b'x')\nprint(two.recv(1))\n",
    ),
    "a name of a module": (
        "from eventlet.green.socket import socketpair\none, two = socketpair()\nprint(one.family == two.family)\n",
        "from dhaga.socket import socketpair\none, two = socketpair()\nprint(one.family == two.family)\n",
    ),
    "a module of another name": (
        "from eventlet.green import Queue\nprint(Queue.Queue().qsize())\n",
        "import dhaga\nprint(dhaga.queue.Queue().qsize())\n",
    ),
    "a submodule of the library": (
        "import gevent.select\nprint(gevent.select.select([], [], [], 0))\n",
        "import dhaga\nprint(dhaga.select.select([], [], [], 0))\n",
    ),
    "spawn that nobody holds": (
        "import gevent\ngevent.spawn(print, 1, end='.')\ngevent.sleep(0)\n",
        "import dhaga\ndhaga.spawn(print, 1, end='.', daemon=True)\ndhaga.sleep(0)\n",
    ),
    "spawn by its name": (
        "from gevent import spawn\nspawn(pow, 2, 3).join()\nprint(spawn(pow, 2, 3).get())\n",
        "from dhaga import spawn\nspawn(pow, 2, 3, daemon=True).join()\n"
        "print(spawn(pow, 2, 3, daemon=True).result())\n",
    ),
    "spawn over several lines": (
        "import gevent\n\ng = gevent.spawn(\n    pow,\n    2,\n    3,  # cubed\n)\ng.join(timeout=1)\nprint(g.get())\n",
        "import dhaga\n\ng = dhaga.spawn(\n    pow,\n    2,\n    3,  # cubed\n    daemon=True,\n)\ng.join(timeout=1)\n"
        "print(g.result())\n",
    ),
    "spawn with what is in brackets last": (
        "import gevent\n\nprint(gevent.spawn(sum, (1, 2)).get(), gevent.spawn(int, (7), ).get())\n",
        "import dhaga\n\nprint(dhaga.spawn(sum, (1, 2), daemon=True).result(), "
        "dhaga.spawn(int, (7), daemon=True, ).result())\n",
    ),
    "eventlet's spawns": (
        "import eventlet\neventlet.spawn_n(print, 1)\nlater = eventlet.spawn_after(0.001, pow, 2, 2)\n"
        "print(later.wait())\n",
        "import dhaga\ndhaga.spawn(print, 1, daemon=True)\nlater = dhaga.spawn_later(0.001, pow, 2, 2, daemon=True)\n"
        "print(later.result())\n",
    ),
    "a greenlet of an object": (
        "import gevent\n\n\nclass A:\n    def __init__(self):\n        self.g = gevent.spawn(int)\n\n"
        "    def end(self):\n        return self.g.get()\n\n\nprint(A().end())\n",
        "import dhaga\n\n\nclass A:\n    def __init__(self):\n        self.g = dhaga.spawn(int, daemon=True)\n\n"
        "    def end(self):\n        return self.g.result()\n\n\nprint(A().end())\n",
    ),
    "joinall": (
        "import gevent\njobs = [gevent.spawn(pow, n, 2) for n in range(3)]\ngevent.joinall(jobs, timeout=5)\n"
        "print([job.get() for job in jobs])\n",
        "import dhaga\njobs = [dhaga.spawn(pow, n, 2, daemon=True) for n in range(3)]\ndhaga.wait(jobs, timeout=5)\n"
        "print([job.result() for job in jobs])\n",
    ),
    "joinall of spawns": (
        "from gevent import joinall, spawn\njoinall([spawn(print, 1), spawn(print, 2)])\n",
        "import dhaga\nfrom dhaga import spawn\n"
        "dhaga.wait([spawn(print, 1, daemon=True), spawn(print, 2, daemon=True)])\n",
    ),
    "a list that grows": (
        "import gevent\njobs = []\nfor n in range(2):\n    jobs.append(gevent.spawn(print, n))\ngevent.joinall(jobs)\n"
        "for job in jobs:\n    job.join()\nprint(len(jobs))\n",
        "import dhaga\njobs = []\nfor n in range(2):\n    jobs.append(dhaga.spawn(print, n, daemon=True))\n"
        "dhaga.wait(jobs)\nfor job in jobs:\n    job.join()\nprint(len(jobs))\n",
    ),
    "a silent Timeout": (
        "import gevent\nwith gevent.Timeout(0.001, False):\n    gevent.sleep(9)\n    print(1)\nprint(2)\n",
        "import dhaga\nwith dhaga.move_on_after(0.001):\n    dhaga.sleep(9)\n    print(1)\nprint(2)\n",
    ),
    "a silent Timeout of eventlet's": (
        "import eventlet\nfrom eventlet.timeout import Timeout\nwith Timeout(0.001, exception=False):\n"
        "    eventlet.sleep(9)\nprint(2)\n",
        "import dhaga\nwith dhaga.move_on_after(0.001):\n    dhaga.sleep(9)\nprint(2)\n",
    ),
    "a Timeout with an error": (
        "import gevent\n\n\nclass Late(Exception):\n    pass\n\n\ntry:\n    with gevent.Timeout(0.001, Late('so')):\n"
        "        gevent.sleep(9)\nexcept Late as error:\n    print(error)\n",
        "import dhaga\n\n\nclass Late(Exception):\n    pass\n\n\ntry:\n    with dhaga.Timeout(0.001, Late('so')):\n"
        "        dhaga.sleep(9)\nexcept Late as error:\n    print(error)\n",
    ),
    "a Timeout that is caught": (
        "from gevent import Timeout, sleep\ntry:\n    with Timeout(0.001):\n        sleep(9)\nexcept Timeout:\n"
        "    print('late')\nexcept Exception:\n    print('wrong')\n",
        "import dhaga\nfrom dhaga import sleep\ntry:\n    with dhaga.Timeout(0.001):\n        sleep(9)\n"
        "except TimeoutError:\n    print('late')\nexcept Exception:\n    print('wrong')\n",
    ),
    "an event": (
        "import gevent\nfrom gevent.event import Event\n\ndone = Event()\ngevent.spawn(done.set)\n"
        "print(done.wait(5), done.is_set())\n",
        "import dhaga\nfrom dhaga.threading import Event\n\ndone = Event()\ndhaga.spawn(done.set, daemon=True)\n"
        "print(done.wait(5), done.is_set())\n",
    ),
    "a lock": (
        "from gevent.lock import BoundedSemaphore, RLock\nlock, other = BoundedSemaphore(), RLock()\n",
        "from gevent.lock import BoundedSemaphore, RLock\nlock, other = BoundedSemaphore(), RLock()\n",
    ),
    "locks": (
        "from gevent.lock import BoundedSemaphore, RLock\nlock = BoundedSemaphore(value=1)\nother = RLock()\n"
        "with lock, other:\n    print(lock.acquire(blocking=False))\n",
        "from dhaga.threading import BoundedSemaphore, RLock\nlock = BoundedSemaphore(value=1)\nother = RLock()\n"
        "with lock, other:\n    print(lock.acquire(blocking=False))\n",
    ),
    "queues": (
        "import queue\nfrom eventlet.queue import Empty, PriorityQueue, Queue\n\n"
        "q: 'Queue' = Queue(2)\np = PriorityQueue(maxsize=2)\n"
        "q.put(1)\np.put(2)\ntry:\n    q.get(), p.get(), q.get_nowait()\nexcept Empty as error:\n"
        "    print(type(error) is queue.Empty)\n",
        "import queue\nfrom dhaga.queue import Empty, PriorityQueue, Queue\n\n"
        "q: 'Queue' = Queue(2)\np = PriorityQueue(maxsize=2)\n"
        "q.put(1)\np.put(2)\ntry:\n    q.get(), p.get(), q.get_nowait()\nexcept Empty as error:\n"
        "    print(type(error) is queue.Empty)\n",
    ),
    "locks with a timeout": (
        "from gevent.lock import Semaphore\n\nlock = Semaphore(0)\n"
        "print(lock.acquire(timeout=0.001), lock.acquire(True, 0), lock.acquire(False))\n",
        "from dhaga.threading import Semaphore\n\nlock = Semaphore(0)\n"
        "print(lock.acquire(timeout=0.001), lock.acquire(True, 0), lock.acquire(False))\n",
    ),
    "a queue by another name": (
        "from gevent.queue import JoinableQueue\n\nq = JoinableQueue()\nq.put(1)\n"
        "print(q.get())\nq.task_done()\nq.join()\n",
        "import dhaga\n\nq = dhaga.queue.Queue()\nq.put(1)\nprint(q.get())\nq.task_done()\nq.join()\n",
    ),
    "locals": (
        "from gevent.local import local\n\nmine = local()\nmine.x = 1\nprint(mine.x)\n",
        "from dhaga.threading import local\n\nmine = local()\nmine.x = 1\nprint(mine.x)\n",
    ),
    "part of a file": (
        "import gevent\nfrom gevent import pool, sleep  # both\nsleep(0)\ngevent.sleep(0)\n"
        "print(gevent.getcurrent() is None)\n"
        "print(pool.Pool(2).map(abs, [-1]))\n",
        "import dhaga\nimport gevent\nfrom dhaga import sleep\n"
        "from gevent import pool  # both\nsleep(0)\ndhaga.sleep(0)\n"
        "print(gevent.getcurrent() is None)\nprint(pool.Pool(2).map(abs, [-1]))\n",
    ),
}


@pytest.mark.parametrize("name", CHANGED)
def test_a_rule_changes_what_it_says_and_nothing_else(name: str) -> None:
    before, after = CHANGED[name]
    assert rewritten(before) == after


@pytest.mark.parametrize("name", CHANGED)
def test_what_is_rewritten_is_left_as_it_is_by_a_second_rewriting(name: str) -> None:
    _, after = CHANGED[name]
    assert rewritten(after) == after


@pytest.mark.once
def test_the_programs_print_the_same_before_and_after(tmp_path: Path) -> None:
    both = ["--as", "gevent", "--as", "eventlet"]
    before = outputs([before for before, _ in CHANGED.values()], tmp_path, *both)
    after = outputs([after for _, after in CHANGED.values()], tmp_path, *both)
    assert dict(zip(CHANGED, after, strict=True)) == dict(zip(CHANGED, before, strict=True))
    assert sum(map(bool, before)) == len(CHANGED) - 1
    alone = [text for _, text in CHANGED.values() if "gevent" not in text]
    assert outputs(alone, tmp_path) == [
        out for out, (_, text) in zip(after, CHANGED.values(), strict=True) if text in alone
    ]


LEFT = {
    "import gevent\ngevent.sleep(1, ref=False)\n": "it is called with arguments that only gevent has",
    "import gevent\ngevent.sleep(-1)\n": "its seconds may be negative",
    "import gevent\ngevent.sleep(seconds=due - now)\n": "its seconds may be negative",
    "import gevent\ngevent.spawn_later(due - now, f)\n": "its seconds may be negative",
    "from gevent import monkey\nmonkey.patch_all(thread=False)\n": "it patches only some modules",
    "import eventlet\neventlet.monkey_patch()\neventlet.GreenPool()\n": "eventlet's is_monkey_patched needs it",
    "from gevent import socket\nredis.socket = socket\n": "the module is passed on, or its names are computed",
    "from gevent import socket\nsocket.wait_read(1)\n": "dhaga.socket has no wait_read",
    "from gevent import socket\nsocket.__name__\n": "dhaga.socket has no __name__",
    "from gevent import socket\nsocket.socket._real_close(x)\n": "a private name of it is used",
    "from gevent import socket\nclass S(socket.socket):\n    pass\n": "a class is derived from it",
    "import gevent\ngevent.sleep(1)\ngevent.sleep = fake\n": "a file of the tree replaces it",
    "import gevent\ngevent.sleep(1)\nsetattr(gevent, 'sleep', f)\n": "a file of the tree replaces it",
    "import gevent\ngevent.sleep(1)\npatch('gevent.sleep')\n": "a file of the tree replaces it",
    "import gevent\ngevent.spawn(*what)\n": "its function is not named",
    "import gevent\ngevent.spawn(f, **options)\n": "its keyword arguments may be taken for arguments of dhaga.spawn",
    "import gevent\ngevent.spawn(f, name=1)\n": "its keyword arguments may be taken for arguments of dhaga.spawn",
    "import gevent\nmap(gevent.spawn, jobs)\n": "it is passed on",
    "import gevent\ndef f():\n    return gevent.spawn(g)\n": "it is used where it cannot be followed, at line 3",
    "import gevent\ng = gevent.spawn(f)\nprint(g.value)\n": "its value is used, at line 3",
    "import gevent\ng = gevent.spawn(f)\ng.get(timeout=1)\n": "its get is used, at line 3",
    "import gevent\ng = gevent.spawn(f)\ng.link(h)\n": "its link is used, at line 3",
    "import gevent\ng = gevent.spawn(f)\nh(g)\n": "it is used where it cannot be followed, at line 3",
    "import gevent\ng = gevent.spawn(f)\ng = 1\n": "another value is also stored there, at line 3",
    "import gevent\ng = gevent.spawn(f)\ndel g\n": "g is also bound otherwise, at line 3",
    "import gevent\na = b = gevent.spawn(f)\n": "it is used where it cannot be followed, at line 2",
    "import gevent\na, b = gevent.spawn(f), gevent.spawn(g)\n": "it is stored where it cannot be followed, at line 2",
    "import gevent\nd[1] = gevent.spawn(f)\n": "it is stored where it cannot be followed, at line 2",
    "import gevent\nl = [gevent.spawn(f), h()]\ngevent.joinall(l)\n": "it is in a list with other objects",
    "import gevent\nclass A:\n    g = gevent.spawn(f)\n": "g is not a variable of a function or of the module",
    "import eventlet\ng = eventlet.spawn_n(f)\n": "its greenlet is kept, and is of another class",
    "import gevent\ngevent.joinall(jobs)\n": "it may wait for other objects than dhagas",
    "import gevent\nx = gevent.joinall([])\n": "its result is used",
    "import gevent\ngevent.joinall([], raise_error=True)\n": "its arguments are not greenlets and a timeout",
    "import gevent\nwith gevent.Timeout(1):\n    f()\n": "its error leaves the block",
    "import gevent\nwith gevent.Timeout(1) as t:\n    f()\n": "its object is used",
    "import gevent\nt = gevent.Timeout(1)\n": "it is not a with block, as dhaga.Timeout must be",
    "import gevent\nwith gevent.Timeout(1, late):\n    f()\n": "its second argument may not be an error",
    "import gevent\nwith gevent.Timeout(-1, False):\n    f()\n": "its seconds may be negative",
    "import gevent\nwith gevent.Timeout(due - now, False):\n    f()\n": "its seconds may be negative",
    "import gevent\nwith gevent.Timeout(1, False):\n  try:\n    f()\n  finally:\n    g()\n": "the block has a try",
    "import gevent\nwith gevent.Timeout(1,  # soon\n    False):\n    f()\n": "there is a comment among its arguments",
    "import gevent\nwith gevent.Timeout(*how):\n    f()\n": "its arguments are computed",
    "from gevent.lock import Semaphore\ns = Semaphore()\nprint(s.release())\n": "it is passed on, or used otherwise",
    "from gevent.lock import Semaphore\ns = Semaphore()\nwork(s)\n": "it is passed on, or used otherwise",
    "from gevent.event import Event\nclass E(Event):\n    pass\n": "the class is passed on, derived from, or compared",
    "from gevent.event import Event\ne = Event()\nprint(e.ready())\n": "it is passed on, or used otherwise",
    "from gevent.queue import Queue\nq = Queue()\nfor each in q:\n    pass\n": "it is passed on, or used otherwise",
    "from eventlet.queue import Queue\nq = Queue(0)\n": "its size may be 0 or None, which means something else",
    "from gevent.queue import Queue\nq = Queue(size)\n": "its size may be 0 or None, which means something else",
    "from gevent.queue import Queue\nq = Queue(maxsize=0)\n": "its size may be 0 or None, which means something else",
    "from gevent.queue import Queue\nq = Queue(items=[1])\n": "it has arguments that only gevent or eventlet has",
    "from gevent.queue import Queue\nq = Queue(*sizes)\n": "its arguments are unknown",
    "from gevent.queue import Queue\nq = None\nq = Queue()\n": "another value is also stored there, at line 2",
    "from gevent import *\nsleep(1)\n": "it comes from a star import",
    "import importlib\nimportlib.import_module('gevent')\n": "it is a string",
    "import gevent\ngevent.\\\n  sleep(1)\ngevent.getcurrent()\n": "its counterpart has another form",
}

UNLIKE = {
    "lock.Semaphore": ("acquire(False, 0.1)", "acquire(blocking=False, timeout=1)", "acquire(timeout=wait)")
    + ("acquire(*how)", "acquire(**how)", "acquire(timeout=-1)"),
    "lock.RLock": ("acquire(timeout=None)",),
    "queue.JoinableQueue": ("join(1)", "join(timeout=1)", "get(timeout=-1)", "put(1, True, due - now)"),
}
"""For each class of gevent, calls of its methods that have no equal in Dhaga's class."""


@pytest.mark.parametrize(("name", "call"), [(name, call) for name, calls in UNLIKE.items() for call in calls])
def test_an_object_is_left_if_a_call_has_arguments_with_another_meaning(name: str, call: str) -> None:
    module, _, kind = name.partition(".")
    text = f"from gevent.{module} import {kind}\nit = {kind}()\nit.{call}\n"
    assert rewritten(text) == text
    assert reasons(text) == ["it is passed on, or used otherwise, at line 3"]


@pytest.mark.parametrize("use", ["print(it.join())", "atexit.register(it.join)", "atexit.register(it.release)"])
def test_an_object_is_left_if_the_result_or_the_arguments_of_a_method_are_unknown(use: str) -> None:
    kind = "Semaphore" if "release" in use else "JoinableQueue"
    text = f"from gevent.{'lock' if 'release' in use else 'queue'} import {kind}\nit = {kind}()\n{use}\n"
    assert rewritten(text) == text


@pytest.mark.parametrize("text", LEFT)
def test_what_is_not_understood_is_left_and_why(text: str) -> None:
    assert any(why.startswith(LEFT[text]) for why in reasons(text)), reasons(text)


CAUGHT = """
    import gevent
    try:
        with gevent.Timeout(1):
            {body}
    except {handler}:
        pass
    {rest}
"""


@pytest.mark.parametrize(
    ("body", "handler", "rest", "why"),
    [
        ("f(timeout=2)", "gevent.Timeout", "", "a call in the block has its own timeout"),
        ("yield f()", "gevent.Timeout", "", "the block yields"),
        ("f()", "gevent.Timeout as late", "print(late)", "the error is used, or caught after others"),
        ("f()", "(gevent.Timeout, OSError)", "", "it is not a with block, as dhaga.Timeout must be"),
        ("f()", "Exception", "", "its error leaves the block"),
        ("f()", "gevent.Timeout", "s.settimeout(3)", "the file has other timeouts"),
        ("f()", "gevent.Timeout", "TimeoutError = 1", "the module uses the name TimeoutError for something else"),
        ("g = gevent.Timeout(2)", "gevent.Timeout", "", "there is another Timeout in the block"),
    ],
)
def test_a_timeout_is_left_where_its_handler_would_catch_more_or_less(
    body: str, handler: str, rest: str, why: str
) -> None:
    text = dedent(CAUGHT).format(body=body, handler=handler, rest=rest)
    assert any(each.startswith(why) for each in reasons(text)), reasons(text)
    assert "dhaga" not in rewritten(text)


def test_a_try_with_more_than_the_block_is_left() -> None:
    text = "import gevent\ntry:\n    f()\n    with gevent.Timeout(1):\n        f()\nexcept gevent.Timeout:\n    pass\n"
    assert "the try contains more than the block of one Timeout" in reasons(text)
    assert rewritten(text) == text


def test_a_greenlet_falls_with_the_joinall_that_takes_another_thing() -> None:
    text = "import gevent\na = gevent.spawn(f)\ngevent.joinall([a, other])\n"
    assert reasons(text) == ["it is in a list with other objects", "it may wait for other objects than dhagas"]
    assert rewritten(text) == text
