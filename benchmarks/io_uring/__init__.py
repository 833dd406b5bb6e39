"""File operations by a ring of io_uring beside those through OS threads."""
