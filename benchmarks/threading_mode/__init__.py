"""Threaded programs as they are deployed: before on OS threads, and then unchanged on dhagas."""
