"""A small replicated store, and a simulation that kills and parts its replicas: see README.md."""
