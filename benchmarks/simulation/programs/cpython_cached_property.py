"""Two nodes read cached properties of each other: the lock of a property is one for all instances."""

import threading
from functools import cached_property


class Node:
    def __init__(self, leaf):
        self.leaf = leaf
        self.other = None

    @cached_property
    def size(self):
        return 1 if self.leaf else self.other.weight

    @cached_property
    def weight(self):
        return 1 if self.leaf else self.other.size


def pair():
    """Return a node whose property needs one of another node."""
    node = Node(leaf=False)
    node.other = Node(leaf=True)
    return node


first, second = pair(), pair()
threads = [
    threading.Thread(target=lambda: first.size, name="size"),
    threading.Thread(target=lambda: second.weight, name="weight"),
]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
