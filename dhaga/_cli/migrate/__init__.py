"""``python -m dhaga migrate``: finds uses of gevent, eventlet and threading in a source tree, and rewrites them."""
