"""The WSGI server's parts: from bytes to an environ, and from an app's answer to bytes."""
