"""Waits for file descriptors, files, child processes and names (DNS)."""
