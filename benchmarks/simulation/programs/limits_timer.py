"""Two threads count hits after a pause: both see that the timer has ended, and both start the new one."""

import threading
import time

from limits.storage import MemoryStorage

storage = MemoryStorage()
time.sleep(1)
threads = [threading.Thread(target=storage.incr, args=(key, 60)) for key in ("one", "two")]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
