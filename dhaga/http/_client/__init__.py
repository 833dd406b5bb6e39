"""The HTTP clients: Tornado's behind plain calls, and urllib3 pools that park, for requests."""
