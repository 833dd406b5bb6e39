"""Two threads open a pool: each makes its lock, so that both start its workers."""

import threading

import psycopg_pool

pool = psycopg_pool.ConnectionPool(min_size=0, max_size=1, open=False)
threads = [threading.Thread(target=pool.open) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
pool.close()
