"""Job queues: 20 jobs in the threads of a worker in this process, which go on once all of them have begun."""

import logging
import os
import sys
import threading
import uuid

COUNT = 20
url = os.environ.get("DHAGA_REDIS", "")
queue = f"dhaga-packages-{uuid.uuid4()}"
barrier = threading.Barrier(COUNT)
done = threading.Semaphore(0)


def job(n):
    barrier.wait(30)
    done.release()


def dramatiq():
    import dramatiq
    from dramatiq.brokers.redis import RedisBroker

    broker = RedisBroker(url=url, namespace=queue)
    dramatiq.set_broker(broker)
    actor = dramatiq.actor(queue_name="jobs", max_retries=0)(job)
    worker = dramatiq.Worker(broker, worker_threads=COUNT)
    worker.start()
    for n in range(COUNT):
        actor.send(n)
    yield
    broker.join("jobs")
    worker.stop()
    broker.flush_all()


def huey():
    from huey import RedisHuey

    logging.disable()
    jobs = RedisHuey(queue, url=url)
    task = jobs.task()(lambda n: job(n) or n)
    consumer = jobs.create_consumer(workers=COUNT, periodic=False)
    consumer.start()
    results = [task(n) for n in range(COUNT)]
    yield
    assert [result.get(blocking=True, timeout=20) for result in results] == list(range(COUNT))
    consumer.stop(graceful=True)
    jobs.storage.flush_all()


def joblib():
    from joblib import Parallel, delayed

    Parallel(n_jobs=COUNT, backend="threading")(delayed(job)(n) for n in range(COUNT))
    yield


for _ in globals()[sys.argv[1]]():
    for _ in range(COUNT):
        assert done.acquire(timeout=30)
print("peak", COUNT)
sys.stdout.flush()
