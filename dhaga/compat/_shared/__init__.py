"""What gevent and eventlet have in common: each part once, from which both halves of ``compat`` are made."""
