"""Access to a process from outside: the inspector's socket, its client, and the debug page."""
