"""The commands of ``python -m dhaga``: run a program, serve, dump, explain, migrate, simulate, top."""
