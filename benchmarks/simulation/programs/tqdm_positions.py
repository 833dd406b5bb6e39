"""Threads make progress bars: each looks for a free line among all bars, which the others add themselves to."""

import threading

from tqdm import tqdm

kept = [tqdm(disable=True)]


def make_bars():
    for _ in range(2):
        kept.append(tqdm(disable=True))


threads = [threading.Thread(target=make_bars) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
