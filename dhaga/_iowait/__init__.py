"""Waits for file descriptors, files, child processes and name resolution (DNS)."""
