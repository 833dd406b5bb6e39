"""Two threads use a module that is loaded on first use: one of them finds it empty."""

import importlib.util
import sys
import threading

spec = importlib.util.find_spec("colorsys")
loader = importlib.util.LazyLoader(spec.loader)
spec.loader = loader
module = importlib.util.module_from_spec(spec)
sys.modules["colorsys"] = module
loader.exec_module(module)


def use():
    assert module.rgb_to_yiq(1, 1, 1)


threads = [threading.Thread(target=use) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
