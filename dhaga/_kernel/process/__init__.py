"""Events in the life of threads and of the process: signals, forks, exits and preemption."""
