"""A service like OpenStack's: each job runs in a thread of oslo.service's threading backend, many jobs at once."""

import importlib
import sys
import threading
import time

sys.modules["eventlet"] = None  # type: ignore[assignment]  # oslo.service looks for it
backend = importlib.import_module("oslo_service.backend")
backend.init_backend(backend.BackendType.THREADING)  # before the import of the module that it replaces
group = importlib.import_module("oslo_service.threadgroup").ThreadGroup()

at_once, jobs, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
places = threading.BoundedSemaphore(at_once)


def job() -> None:
    time.sleep(seconds)
    places.release()


print("begin", flush=True)
began = time.monotonic()
for _ in range(jobs):
    places.acquire()
    group.add_thread(job)
for _ in range(at_once):
    places.acquire()
print(jobs / (time.monotonic() - began), flush=True)
