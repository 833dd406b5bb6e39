"""The life of threads and of the process: signals, forks, exits."""
