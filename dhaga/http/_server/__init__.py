"""Parts of the WSGI server: the parser that makes environs, and the response that sends an app's result."""
