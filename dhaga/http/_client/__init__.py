"""The HTTP clients: HTTP clients: Tornado's, called as a function, and urllib3 pools that park, for requests."""
