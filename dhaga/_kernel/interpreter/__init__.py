"""The interpreter: what Dhaga requires of it, and lines that stay whole on one without its lock."""
