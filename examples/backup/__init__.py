"""A backup client and server over TCP, on OS threads or on dhagas.

Only the module `workers` distinguishes threads from dhagas. The other modules use only `Pool`, `offload` and Dhaga's
counterparts of standard modules: `dhaga.threading`, `dhaga.queue`, `dhaga.socket`, `dhaga.time`, `dhaga.futures`.

Saved: bytes, names, modes, modification times, links, hard links, holes, and numeric owners, which only root can
restore. A set-ID bit is restored only with the owner with which it was saved, so that another user's file never becomes
a program that runs as the restoring user. `restore --no-owners` restores no owners, for a store that others may have
written. Not saved: access control lists, extended attributes, devices, sockets and fifos.
"""
