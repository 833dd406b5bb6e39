"""The atomic steps of the source, by name, as steps of the memory model. Their meaning is read from the source's text.

So a weaker order in the source is a weaker order in the model. The computations between these steps are in
``handshakes.py``.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from tests.kit.memory_model import Step
from tests.kit.mirror import ROOT

PACKAGE = ROOT / "dhaga"
FAST = "_kernel/fast/"
PATHS = FAST + "fast_paths/"


class Site(NamedTuple):
    """The place of a step: ``text`` occurs once in the function. ``kind``: for a step whose text does not show it."""

    file: str
    function: str
    text: str
    place: str = ""
    kind: str = ""


def sites(file: str, function: str, **texts: str | tuple[str, ...]) -> dict[str, Site]:
    """Return the sites of a function, by name. A bare text accesses a member of the guard."""
    return {
        name.replace("_", " "): Site(file, function, *((text,) if isinstance(text, str) else text))
        for name, text in texts.items()
    }


SITES: dict[str, Site] = {
    # guard.h: acquire and release, by the mutex and by the bias
    **sites(
        PATHS + "guard.h",
        "acquire_guard",
        is_of_this_epoch="LOAD_ACQUIRE(self->epoch) == epoch",
        is_biased="&& LOAD(self->bias) == me",
        busy_before="busy = LOAD(self->busy)",
        busy_up="STORE(self->busy, busy + 1)",
        is_still_biased="|| LOAD(self->bias) == me",
        step_back="STORE_RELEASE(self->busy, 0)",
    ),
    **sites(
        PATHS + "guard.h",
        "acquire_mutex",
        epoch="LOAD_ACQUIRE(self->epoch) != epoch",
        owned_already="LOAD(self->owner) == me",
        busy_again="STORE(self->busy, self->busy + 1)",
        mutex=("PyMutex_Lock(&self->mutex)", "mutex", "lock"),
        owned="STORE(self->owner, me)",
        bias_found="bias = LOAD(self->bias)",
        candidate="STORE(self->bias, me | CANDIDATE)",
    ),
    **sites(
        PATHS + "guard.h",
        "is_within",
        bias_within="(LOAD(self->bias) & ~(uintptr_t)REVOKED) == me",
        busy_within="LOAD(self->busy) > 0",
    ),
    **sites(
        PATHS + "guard.h",
        "take_bias",
        bias_to_revoke="LOAD(self->bias) | REVOKED",
        revoked="STORE(self->bias, ",
        fence_all=("fence_all_threads()", "", "fence all"),
        idle="LOAD_ACQUIRE(self->busy) == 0",
        idle_at_last="LOAD_ACQUIRE(self->busy) != 0",
    ),
    **sites(
        PATHS + "guard.h",
        "release_guard",
        is_owner="LOAD(self->owner) != me",
        busy_held="LOAD(self->busy) - 1",
        busy_down="STORE_RELEASE(self->busy, ",
        is_candidate="LOAD(self->bias) == (me | CANDIDATE)",
        biased="STORE(self->bias, me)",
        disowned="STORE(self->owner, 0)",
    ),
    **sites(
        PATHS + "guard.h",
        "renew",
        renewing=("PyMutex_Lock(&renewing)", "renewing", "lock"),
        renewed_already=("self->epoch != epoch", "epoch", "load"),
        owner_at_fork="LOAD(self->owner) != survivor",
        mutex_renewed=("self->mutex = (PyMutex){0}", "mutex", "renew"),
        owner_renewed="STORE(self->owner, 0)",
        bias_at_fork="LOAD(self->bias) & ~(uintptr_t)REVOKED",
        bias_renewed="STORE(self->bias, 0)",
        busy_renewed="STORE(self->busy, 0)",
        epoch_renewed="STORE_RELEASE(self->epoch, epoch)",
    ),
    # the room that receives bytes
    **sites(
        PATHS + "socket.h",
        "receive_bytes",
        room_taken=("__atomic_exchange_n(&kept, NULL, __ATOMIC_ACQ_REL)", "kept"),
        room_kept=("__atomic_exchange_n(&kept, mine, __ATOMIC_ACQ_REL)", "kept"),
    ),
    # the wake, and the scheduler's sleep
    **sites(
        PATHS + "wake.h",
        "resume_dhaga",
        appended=("append_to(queue, waiter)", "run queue", "lock"),
        fence_of_wake=("FENCE()",),
        asleep_seen=("SLOT(scheduler, scheduler_asleep)", "asleep"),
    ),
    **sites(
        "_kernel/run/lap.py",
        "_end_lap",
        asleep=("self.asleep = True", "asleep", "store"),
        runnable=("self.count_runnable()", "run queue size", "load"),
    ),
    **sites("_kernel/run/lap.py", "fence_queues", fence_of_sleep=("fence(queue)", "run queue", "lock")),
    # join and end
    **sites(
        PATHS + "join.h",
        "dhaga_wait_for_end",
        joiner_appended=("PyList_Append(joiners, ticket)", "joiners", "lock"),
    ),
    **sites(
        PATHS + "join.h", "has_just_ended", fence_of_join=("FENCE()",), done_seen=("SLOT(self, dhaga_done)", "done")
    ),
    **sites(
        PATHS + "join.h", "dhaga__end", done=("put(self, dhaga_done, ", "done", "store"), fence_of_end=("FENCE()",)
    ),
    **sites(PATHS + "join.h", "only_ticket", joiners_read=("BEGIN_STEP(joiners)", "joiners", "lock")),
    # Queue: a get without the mutex, and a put that finds no room
    **sites(
        PATHS + "queue.h",
        "queue_get",
        item_taken=("popleft_of(stock)", "stock", "lock"),
        fence_of_get=("FENCE()",),
        putters_seen=("item != NULL && deque_size(SLOT(self, queue_putters))", "putters size", "load"),
    ),
    **sites(
        "queue.py",
        "put",
        putter_appended=("self._putters_.append(me.parked)", "putters", "lock"),
        fence_of_put=("fence(self._stock_)", "stock", "lock"),
        room_seen=("self._admit_putters_()\n            except", "stock size", "load"),
    ),
    # a reader that parks, and the close of its fd
    **sites(
        PATHS + "socket.h",
        "park_to_read",
        reader_added=("PyDict_SetItem(SLOT(watcher, watcher_readers), me, Py_None)", "readers", "lock"),
        fence_of_read=("FENCE()",),
        watched_seen=("SLOT(watcher, watcher_watched) != Py_True", "watched"),
    ),
    **sites("_kernel/run/fd_watch.py", "set_interest", unwatched=("self.watched = ", "watched", "store")),
    **sites("_kernel/run/fd_watch.py", "claim_all", readers_read=("[*waiters]", "readers", "lock")),
    # the lists of chunks, as a child of a fork finds them
    **sites(
        FAST + "_frame_chunks.c",
        "chunk_free",
        chunk_linked=("chunk->next = mine->list", "next", "store"),
        fence_of_chunk=("atomic_thread_fence(memory_order_release)",),
        chunk_listed=("mine->list = chunk", "list", "store"),
    ),
    **sites(
        FAST + "emptied_chunks.h",
        "take_address",
        page_out=("of->pages = page->next", "pages", "store"),
        fence_of_page=("atomic_thread_fence(memory_order_release)",),
        page_freed=("free(page)", "page", "store"),
    ),
    **sites(
        FAST + "emptied_chunks.h",
        "empty_chunk",
        address=("page->addresses[page->count] = chunk", "address", "store"),
        fence_of_address=("atomic_thread_fence(memory_order_release);\n    page->count++",),
        counted=("page->count++", "count", "store"),
        fence_of_count=("atomic_thread_fence(memory_order_release);\n    to->pages",),
        page_in=("to->pages = page", "pages", "store"),
    ),
}

EXCUSED = {
    "guard.h guard___exit__": "each thread asks for what it has written itself",
    "guard.h guard___repr__": "a text for people",
    "guard.h __atomic_signal_fence": "for the compiler; the model makes the steps in the order of the source",
    "steps.h own_slot": "CPython's own rule: an object that this thread owns is freed by it alone",
    "_frame_chunks.c read_figure": "figures, read without an order",
    "_frame_chunks.c count": "only its own thread writes a figure",
    "_frame_chunks.c free_list": "the same",
    "_frame_chunks.c install": "the flag lets one caller in, and hands nothing over; CPython reads its three pointers "
    "without any order, so the fence before they are set has no counterpart",
}

ATOMIC = re.compile(r"\b((?:LOAD|STORE)(?:_ACQUIRE|_RELEASE)?|FENCE|fence_all_threads|__atomic_\w+|atomic_\w+) ?\(")


def text_of(file: str) -> str:
    return (PACKAGE / file).read_text()


def functions_of(file: str) -> dict[str, str]:
    """Return the text of each function of a file; text of C has no comments."""
    text = text_of(file)
    if file.endswith(".py"):
        found = re.finditer(r"^ *def (\w+)\(.*?(?=^ *def |^ *@|^\S|\Z)", text, re.DOTALL | re.MULTILINE)
    else:
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
        found = re.finditer(r"^(\w+)\([^;]*?\n\{.*?^\}", text, re.DOTALL | re.MULTILINE)
    return {each[1]: each[0] for each in found}


def macros() -> dict[str, tuple[str, str]]:
    """Return the kind and order of each macro, from its definition."""
    defined = re.finditer(
        r"#define (\w+)\(.*?\) *(?:\\\n)? *__atomic_(load|store|thread_fence)\w*\(.*?__ATOMIC_(\w+)",
        text_of(PATHS + "steps.h") + text_of(PATHS + "guard.h"),
    )
    return {each[1]: (each[2].replace("thread_", ""), each[3].lower()) for each in defined}


MACROS = macros()


def meaning_of(site: Site) -> Step:
    """Return the step of a site, without a value."""
    place, kind, order = site.place, site.kind, "relaxed"
    exchange = re.search(r"__atomic_(exchange)_n\(.*__ATOMIC_(\w+)\)", site.text)
    fence = re.search(r"atomic_thread_(fence)\(memory_order_(\w+)\)", site.text)
    macro = re.search(r"\b(\w+)\(", site.text)
    if found := exchange or fence:
        kind, order = found[1], found[2].lower()
    elif macro and macro[1] in MACROS:
        kind, order = MACROS[macro[1]]
    if not place and kind in ("load", "store"):
        place = re.search(r"self->(\w+)", site.text)[1]
    return Step(kind, place, None, order)


MEANINGS = {name: meaning_of(site) for name, site in SITES.items()}


class Steps:
    """Makes the steps of a hand-shake from their names. One step may be weakened.

    A weakened load, store or exchange is relaxed; a weakened fence or lock is left out. ``used``: names of made steps.
    """

    def __init__(self, weakened: str = "") -> None:
        self.weakened = weakened
        self.used: set[str] = set()

    def __call__(self, name: str, value: Any = None) -> Step:
        self.used.add(name)
        step = MEANINGS[name]._replace(value=value)
        if name != self.weakened:
            return step
        return Step("fence") if step.kind in ("lock", "fence", "fence all") else step._replace(order="relaxed")

    def until(self, name: str, value: Any) -> Step:
        """Return a load in a loop, which ends once the load finds ``value``."""
        return self(name, value)._replace(kind="await")

    def unlock(self, name: str) -> Step:
        return Step("fence") if name == self.weakened else Step("unlock", MEANINGS[name].place)
