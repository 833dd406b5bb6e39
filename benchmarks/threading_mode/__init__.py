"""Threaded programs as they are deployed, before and after: on OS threads, and unchanged on dhagas."""
