"""Shared by all rooms of a simulation: its parts, errors, ranges, the present simulation and its end."""
