"""What ``migrate`` finds in a module: imports, aliases, attributes, patches, options in strings."""

from __future__ import annotations

import pytest

from tests.kit.migrations import module, uses


def test_each_import_and_use_has_its_line_and_its_whole_name() -> None:
    text = """\
import gevent, os, gevent.pool as gp
from gevent import monkey as m, spawn
from eventlet.green.urllib import request
import threading
m.patch_all()
gp.Pool(3).spawn(spawn, gevent.Timeout.start_new)
threading.Thread(target=request.urlopen)
"""
    assert uses(text) == [
        (1, "gevent"),
        (1, "gevent.pool"),
        (2, "gevent.monkey"),
        (2, "gevent.spawn"),
        (3, "eventlet.green.urllib.request"),
        (4, "threading"),
        (5, "gevent.monkey.patch_all"),
        (6, "gevent.pool.Pool"),
        (6, "gevent.spawn"),
        (6, "gevent.Timeout.start_new"),
        (7, "threading.Thread"),
        (7, "eventlet.green.urllib.request.urlopen"),
    ]
    assert [use.kind for use in module(text).uses].count("patch") == 1


def test_a_star_import_is_told_with_the_names_that_come_from_it() -> None:
    text = "from gevent import *\nfrom gevent.queue import *\nspawn(f)\nq = Queue()\nsleep = 1\nsleep(2)\nother()\n"
    found = module(text).uses
    assert [(use.path, use.note) for use in found] == [
        ("gevent", "all of its names"),
        ("gevent.queue", "all of its names"),
        ("gevent.spawn", "by a star import"),
        ("gevent.queue.Queue", "by a star import"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "try:\n    import gevent\nexcept ImportError:\n    gevent = None\ngevent.sleep(1)\n",
        "try:\n    from gevent import sleep\nexcept ImportError:\n    from time import sleep\nsleep(1)\n",
        "if x:\n    from gevent import sleep\nelse:\n    from eventlet import sleep\nsleep(1)\n",
        "from gevent import sleep\nsleep(1)\nsleep = 1\n",
    ],
)
def test_a_name_that_may_be_another_is_told_so(text: str) -> None:
    found = next(use for use in module(text).uses if use.kind == "name")
    assert (found.path, found.note) == ("gevent.sleep", "the name may also mean something else")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("worker_class = 'gevent'", [("gevent as worker_class", "dhaga.integrations.gunicorn.Worker")]),
        ("worker_class: str = 'eventlet'", [("eventlet as worker_class", "dhaga.integrations.gunicorn.Worker")]),
        ("worker_class = 'gunicorn.workers.ggevent.GeventWorker'",
         [("gevent as worker_class", "dhaga.integrations.gunicorn.Worker")]),
        ("app.conf.worker_pool = 'eventlet'", [("eventlet as worker_pool", "TaskPool of dhaga.integrations.celery")]),
        ("app.conf.update(worker_pool='gevent')", [("gevent as worker_pool", "TaskPool of dhaga.integrations.celery")]),
        ("C = {'worker_pool': 'gevent'}", [("gevent as worker_pool", "TaskPool of dhaga.integrations.celery")]),
        ("conf['worker_pool'] = 'gevent'", [("gevent as worker_pool", "TaskPool of dhaga.integrations.celery")]),
        ("run(['gunicorn', '-k', 'gevent_pywsgi', 'app'])", [("gevent as -k", "dhaga.integrations.gunicorn.Worker")]),
        ("run(['celery', '--pool=gevent'])", [("gevent as --pool=gevent", "TaskPool of dhaga.integrations.celery")]),
        ("SocketIO(app, async_mode='eventlet')", [("eventlet as async_mode", "threading")]),
        ("setup(install_requires=['gevent>=22', 'six'])", [("gevent as install_requires", "dhaga")]),
        ("setup(install_requires=['gevent-websocket'])", []),
        ("worker_class = 'sync'", []),
        ("print('gevent')", []),
        ("'''gevent'''", []),
        ("name = 'gevent'", []),
    ],
)  # fmt: skip
def test_options_in_strings_are_found_by_what_they_are_for(text: str, found: list[tuple[str, str]]) -> None:
    options = [(use.path, use.counterpart.partition(",")[0]) for use in module(text).uses if use.kind == "option"]
    assert options == found


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("importlib.import_module('gevent.pool')", ["gevent.pool"]),
        ("__import__('eventlet')", ["eventlet"]),
        ("pytest.importorskip('gevent')", ["gevent"]),
        ("mock.patch('gevent.sleep')", ["gevent.sleep"]),
        ("import_module('gevent ')", []),
        ("if mode == 'eventlet': pass", ["eventlet"]),
        ("print('gevent' in sys.modules, x in ('gevent', 'gevents'))", ["gevent", "gevent"]),
    ],
)
def test_a_module_that_a_text_names_is_found_where_it_is_imported_or_asked_for(text: str, paths: list[str]) -> None:
    assert [use.path for use in module(text).uses] == paths


@pytest.mark.parametrize(
    "text",
    [
        "from . import gevent\ngevent.sleep(1)\n",
        "from .gevent import sleep\nsleep(1)\n",
        "import mygevent\nmygevent.sleep(1)\n",
        "import app.gevent\napp.gevent.sleep(1)\n",
        "# gevent\nx = 1  # import gevent\n",
    ],
)
def test_modules_of_the_same_name_and_comments_are_no_uses(text: str) -> None:
    assert uses(text) == []


def test_a_use_tells_what_as_does_not_have() -> None:
    found = module(
        "import gevent.ares\nimport greenlet\ngreenlet.greenlet\ngreenlet.GreenletExit\nimport threading\n"
    ).uses
    assert [use.as_it_stands for use in found] == [
        "there is no gevent.ares",
        "",
        "greenlet.greenlet: a program's own greenlet cannot switch beside the scheduler's",
        "",
        "",
    ]
