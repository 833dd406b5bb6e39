"""APScheduler: a BackgroundScheduler runs 200 jobs at once in its pool of threads, and one job again and again."""

import threading
import time
from datetime import datetime

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

COUNT = 200
together = threading.Barrier(COUNT)
answers, ticks, enough = {}, [], threading.Event()


def work(n):
    together.wait(30)
    answers[n] = threading.current_thread().name


def tick():
    ticks.append(time.monotonic())
    if len(ticks) == 5:
        enough.set()


scheduler = BackgroundScheduler(executors={"default": ThreadPoolExecutor(COUNT + 10)}, timezone="UTC")
scheduler.start()
for n in range(COUNT):
    scheduler.add_job(work, args=[n], misfire_grace_time=20)
scheduler.add_job(tick, "interval", seconds=0.1, next_run_time=datetime.now().astimezone(), misfire_grace_time=20)
assert enough.wait(30)
while len(answers) < COUNT:
    time.sleep(0.01)
scheduler.shutdown()
assert len(set(answers.values())) == COUNT
assert ticks[4] - ticks[0] > 0.3
print("peak", COUNT)
