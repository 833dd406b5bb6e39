"""Two kinds of pools: OS threads that make blocking calls, and worker dhagas that make submitted calls."""
