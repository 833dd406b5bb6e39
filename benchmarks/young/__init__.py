"""Dhaga beside young frameworks of microthreads."""
