"""Dask's threads: tasks that wait, all of them independent."""

import importlib
import sys
import time

dask = importlib.import_module("dask")  # so that type checkers do not check its names

at_once, tasks, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
work = [dask.delayed(time.sleep)(seconds, dask_key_name=f"task-{number}") for number in range(tasks)]
print("begin", flush=True)
began = time.monotonic()
dask.compute(*work, scheduler="threads", num_workers=at_once)
print(tasks / (time.monotonic() - began), flush=True)
