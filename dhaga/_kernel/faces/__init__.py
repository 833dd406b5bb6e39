"""Shared by the faces: checks of arguments, names that a face lacks, packages that an extra brings."""
