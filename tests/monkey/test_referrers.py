"""The search for referrers: all objects are searched only for an object that has unknown references."""

from __future__ import annotations

from tests.kit.scripts import prints

TWICE = """
    import gc, threading, weakref

    class Box:
        def __init__(self, lock):
            self.lock = lock

    shared = threading.Lock()
    boxes = [Box(shared), Box(threading.Lock())]
    old = Box(None)
    gc.collect()

    import dhaga.monkey
    from dhaga._sync.lock import Lock
    from dhaga.monkey import _referrers

    looks = []

    def noted(look):
        def look_and_note(referrers, wanted):
            looks.append(look.__name__)
            look(referrers, wanted)
        return look_and_note

    def patched():
        looks.clear()
        dhaga.monkey.patch()

    def seen():
        return "look_at_all" in looks and not _referrers.FREE_THREADED  # whose counts do not tell

    _referrers.LOOKS = tuple(map(noted, _referrers.LOOKS))
    patched()
    first = set(looks)
    dhaga.monkey.unpatch()
"""


def test_the_second_patch_looks_only_where_the_first_has_found() -> None:
    assert prints(
        TWICE
        + """
    patched()
    print("look_at_all" in first, seen(), type(shared) is Lock, type(boxes[1].lock) is Lock)
    looks.clear()
    dhaga.monkey.unpatch()
    print(seen(), type(shared) is Lock, shared is boxes[0].lock)
    """
    ) == ["True False True True", "False False True"]


def test_a_reference_made_between_two_patches_is_found() -> None:
    assert prints(
        TWICE
        + """
    old.lock = shared
    boxes.append(Box(shared))
    later = {"plain": Box([shared])}
    gc.collect()
    patched()
    print({type(it) is Lock and it is shared for it in (old.lock, boxes[2].lock, later["plain"].lock[0])})
    dhaga.monkey.unpatch()
    print({type(it) is not Lock and it is shared for it in (old.lock, boxes[2].lock, later["plain"].lock[0])})
    """
    ) == ["{True}", "{True}"]


def test_a_lock_that_a_tuple_got_between_two_patches_is_left() -> None:
    assert prints(
        TWICE
        + """
    boxes[1].more = (shared,)
    gc.collect()
    patched()
    print(type(shared) is Lock, type(boxes[1].lock) is Lock)
    """
    ) == ["False True"]


def test_a_lock_whose_methods_got_another_owner_between_two_patches_is_left() -> None:
    assert prints(
        TWICE
        + """
    condition = threading.Condition(boxes[1].lock)
    gc.collect()
    patched()
    print(type(boxes[1].lock) is Lock, condition._lock is boxes[1].lock)
    dhaga.monkey.unpatch()
    old.acquire = condition.acquire
    gc.collect()
    patched()
    print(type(boxes[1].lock) is Lock, condition._lock is boxes[1].lock)
    """
    ) == ["True True", "False True"]


def test_no_owner_is_kept_alive() -> None:
    assert prints(
        TWICE
        + """
    ended = [weakref.ref(box) for box in boxes]
    boxes.clear()
    gc.collect()
    print([each() for each in ended])
    patched()
    print(type(shared) is Lock)
    """
    ) == ["[None, None]", "True"]


def test_instances_are_found_by_their_classes() -> None:
    assert prints("""
        import gc, threading, queue
        from dhaga.monkey import _upgrade_locks
        from dhaga.monkey._referrers import instances_of
        kept = [threading.Lock(), threading.RLock(), queue.SimpleQueue(), threading.local()]
        gc.collect()
        found = {id(it) for it in instances_of(_upgrade_locks.UPGRADES)}
        print(found == {id(it) for it in gc.get_objects() if type(it) in _upgrade_locks.UPGRADES}, len(found) >= 4)
        print({id(it) for it in kept} <= found)
    """) == ["True True", "True"]
