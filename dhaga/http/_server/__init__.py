"""Parts of the WSGI server: from bytes to an environ, and from an app's result to bytes."""
