"""The parts of `benchmarks.load_testers`: a server, and each load tester in a process of its own."""
