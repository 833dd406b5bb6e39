"""What belongs to the thread or the whole process: signals, forks, exits."""
