"""How dhagas wait for file descriptors, files, child processes and names (DNS)."""
