"""Threads look for a cached value that expires: one of them removes its file between the other's look and its read."""

import tempfile
import threading
import time

from django.conf import settings
from django.core.cache.backends.filebased import FileBasedCache

settings.configure(USE_TZ=True)
with tempfile.TemporaryDirectory() as folder:
    cache = FileBasedCache(folder, {})
    cache.set("colour", "red", timeout=1)
    time.sleep(2)
    threads = [threading.Thread(target=cache.has_key, args=("colour",)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
