"""A web server that calls a backend for each page: its rows, its client of the backend, and the backend itself."""
