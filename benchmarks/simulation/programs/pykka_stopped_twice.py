"""Two threads stop an actor and wait for its answer: it answers the first message only, and then ends."""

import contextlib
import threading

import pykka

actor = pykka.ThreadingActor.start()


def stop():
    with contextlib.suppress(pykka.ActorDeadError):  # the other was first
        actor.stop()


threads = [threading.Thread(target=stop, name=f"stopper {number}") for number in (1, 2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
