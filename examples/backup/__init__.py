"""A backup client and server over TCP, on OS threads or on dhagas.

Here lives the program; `workers` is the one room that knows threads from dhagas. Nothing here reaches below the
standard faces (`dhaga.threading`, `dhaga.queue`, `dhaga.socket`, `dhaga.time`, `dhaga.futures`), `Pool` and `offload`.

Kept: bytes, names, modes, modification times, links, hard links, holes, and owners by their numbers, which only root
can give back. A set-ID bit is restored only with the owner it was saved with: a file of another must not become a
program that runs as the user who restores it. `restore --no-owners` restores none, for a store that others may have
written. Not kept: access control lists, extended attributes, devices, sockets and fifos.
"""
