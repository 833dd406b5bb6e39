"""Threads call a multimethod with types that it has not seen: each call adds to the dict that the others iterate."""

import threading

from multimethod import multimethod


@multimethod
def describe(value: int):
    return "int"


@describe.register
def _(value: str):
    return "str"


class Number(int):
    pass


class Text(str):
    pass


def call(value, expected):
    assert describe(value) == expected


threads = [
    threading.Thread(target=call, args=arguments)
    for arguments in ((1, "int"), ("a", "str"), (Number(1), "int"), (Text("a"), "str"))
]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
