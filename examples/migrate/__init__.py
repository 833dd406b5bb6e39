"""One program in three forms, for those who move over from gevent or eventlet: see README.md."""
