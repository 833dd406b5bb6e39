"""The schedule of a run: which thread runs next, and between which lines a thread is preempted."""
