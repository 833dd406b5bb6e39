"""Running dhagas: the scheduler, its laps, queues and timers, and the poller."""
