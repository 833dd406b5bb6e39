"""Code shared by the programs that tests interrupt."""

from __future__ import annotations

FINALLY = """
import signal, sys, time
import dhaga

def with_finally(what=lambda: dhaga.sleep(1000)):
    try:
        what()
    finally:
        dhaga.sleep(0.01)
        print("finally", flush=True)

def ready(*_):
    print("ready", flush=True)

def busy(seconds=20):
    ready()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass
"""
