"""Threads parse the first statements of a process: the lexer is visible before its keywords are added."""

import threading

import sqlparse


def parse():
    assert sqlparse.parse("select 1")[0].get_type() == "SELECT"


threads = [threading.Thread(target=parse) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
