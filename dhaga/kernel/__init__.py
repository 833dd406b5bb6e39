"""The engine: dhagas, the scheduler that runs them, and the one way to wait. It knows nothing of what is above it."""
