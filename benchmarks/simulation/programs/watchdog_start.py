"""An observer is started while another thread schedules a watch: start() iterates the set that it adds to."""

import threading
import time

from watchdog.events import FileSystemEventHandler
from watchdog.observers.api import BaseObserver, EventEmitter


class Emitter(EventEmitter):
    def queue_events(self, timeout):
        time.sleep(timeout)


observer = BaseObserver(Emitter)
observer.daemon = True
for name in ("a", "b"):
    observer.schedule(FileSystemEventHandler(), name)
thread = threading.Thread(target=observer.schedule, args=(FileSystemEventHandler(), "c"))
thread.start()
observer.start()
thread.join()
observer.stop()
