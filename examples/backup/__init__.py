"""A backup client and server over TCP, on OS threads or on dhagas.

Here lives the program; `workers` is the one room that knows threads from dhagas. Nothing here reaches below the
standard faces (`dhaga.threading`, `dhaga.queue`, `dhaga.socket`, `dhaga.time`, `dhaga.futures`), `Pool` and `offload`.
"""
