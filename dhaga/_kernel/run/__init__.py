"""The scheduler that runs dhagas, with its run queues, its timers and its poller of file descriptors."""
