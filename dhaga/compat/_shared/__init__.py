"""Parts that gevent and eventlet share: both halves of ``compat`` use them."""
