"""Dhaga compared with young frameworks of microthreads."""
