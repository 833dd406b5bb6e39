"""The cost of leaving a wait: by a timeout or a cancel of one dhaga, while many wait for the same thing."""
