"""The standard library in a simulation: clocks, randomness, pools, loops, and calls that leave the simulation."""
