"""What gevent's patch tells those who subscribe, and what it remembers."""

from __future__ import annotations

from tests.kit.scripts import prints

START = """
import dhaga.compat
dhaga.compat.install("gevent")
from gevent import events, monkey
seen = []
events.subscribers.append(seen.append)
"""


def test_subscribers_hear_of_the_patch_and_of_each_module() -> None:
    assert prints(
        START
        + """
monkey.patch_all(Event=True, mine=1)
names = [type(event).__name__ for event in seen]
print(names[0], seen[0].patch_all_kwargs, seen[0].will_patch_module("socket"), seen[0].will_patch_module("sys"))
print({event.module_name for event in seen if isinstance(event, events.GeventWillPatchModuleEvent)} >= {"socket"})
print({event.module_name for event in seen if isinstance(event, events.GeventDidPatchModuleEvent)} >= {"socket"})
print(names[-2:])
"""
    ) == [
        "GeventWillPatchAllEvent {'mine': 1} True False",
        *["True", "True"],
        "['GeventDidPatchBuiltinModulesEvent', 'GeventDidPatchAllEvent']",
    ]


def test_a_veto_leaves_everything_unpatched() -> None:
    assert prints(
        START
        + """
def veto(event):
    raise events.DoNotPatch
events.subscribers.append(veto)
print(monkey.patch_all(), monkey.is_anything_patched(), len(seen))
"""
    ) == ["False False 1"]


def test_what_was_patched_is_remembered_and_a_second_call_warns_if_it_differs() -> None:
    assert prints(
        START
        + """
import socket, warnings
former = [socket.socket]
monkey.patch_all()
print(monkey.saved["socket"]["socket"] is former[0], socket.socket is former[0])
print(all(monkey.is_object_patched(module, name) for module in monkey.saved for name in monkey.saved[module]))
seen.clear()
with warnings.catch_warnings(record=True) as issued:
    warnings.simplefilter("always")
    monkey.patch_all()
    monkey.patch_all(os=False)
print([issue.category.__name__ for issue in issued], seen)
"""
    ) == ["True False", "True", "['MonkeyPatchWarning'] []"]


def test_a_patched_local_can_be_copied() -> None:
    assert prints(
        START
        + """
monkey.patch_all()
import copy, threading
mine = threading.local()
mine.x = 5
print(copy.copy(mine).x)
"""
    ) == ["5"]
