"""OpenStack's threading mode: oslo.service's looping calls and thread groups, and futurist's pool, of 200 threads."""

import importlib
import sys
import threading

sys.modules["eventlet"] = None  # both look for it
backend = importlib.import_module("oslo_service.backend")
backend.init_backend(backend.BackendType.THREADING)  # before the modules that it replaces
futurist = importlib.import_module("futurist")
loopingcall = importlib.import_module("oslo_service.loopingcall")
threadgroup = importlib.import_module("oslo_service.threadgroup")

COUNT = 100
meeting = threading.Barrier(2 * COUNT)
ticks, met = [], []


def tick():
    ticks.append(1)
    if len(ticks) == 5:
        raise loopingcall.LoopingCallDone("ticked")


def meet():
    meeting.wait(60)
    met.append(1)


group = threadgroup.ThreadGroup()
for _ in range(COUNT):
    group.add_thread(meet)
with futurist.ThreadPoolExecutor(max_workers=COUNT) as pool:
    futures = [pool.submit(meet) for _ in range(COUNT)]
    assert loopingcall.FixedIntervalLoopingCall(tick).start(0.01).wait() == "ticked"
    for future in futures:
        future.result()
group.wait()
print("peak", len(met))
