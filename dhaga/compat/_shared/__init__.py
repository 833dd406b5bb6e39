"""Parts that the stand-ins for gevent and eventlet share."""
