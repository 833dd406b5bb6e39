"""The parts of `benchmarks.polling`: rates read by polling, ways to count, and one output that many write."""
