"""Threads parse new user agents with a full cache: two of them evict the same entry."""

import threading

from ua_parser import user_agent_parser

user_agent_parser.MAX_CACHE_SIZE = 3
for number in (1, 2, 3):
    user_agent_parser._lookup(f"Former/{number}", {})


def look_up(agent):
    user_agent_parser._lookup(agent, {})


threads = [threading.Thread(target=look_up, args=(f"Agent/{number}",)) for number in (1, 2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
