"""What it costs to leave: a timeout or a cancel of one among many that wait for the same thing."""
