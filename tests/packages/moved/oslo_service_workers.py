"""oslo.service by its eventlet backend: timers and threads of one service, in this process or in workers of it."""

import logging
import os
import sys
import time

import eventlet

eventlet.monkey_patch()

from oslo_config import cfg  # noqa: E402
from oslo_service import service  # noqa: E402

logging.basicConfig(level=logging.INFO)


def say(line):
    os.write(2, f"{line}\n".encode())  # whole, beside those of other workers


class Ticking(service.Service):
    def start(self):
        super().start()
        self.ticks = 0
        self.tg.add_timer(0.05, self.tick)
        for _ in range(20):
            self.tg.add_thread(self.work)

    def tick(self):
        self.ticks += 1

    def work(self):
        time.sleep(0.5)
        if self.ticks and not self.stopped:
            self.stopped = True
            say(f"worked {self.ticks > 3}")

    stopped = False

    def stop(self, graceful=False):
        say("stopped")
        super().stop(graceful)


cfg.CONF([])
launcher = service.launch(cfg.CONF, Ticking(), workers=int(sys.argv[1]) or None)
launcher.wait()
say("ended")
