"""Programs in gevent's own style: on gevent and, unchanged, on Dhaga under gevent's name."""
