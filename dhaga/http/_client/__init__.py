"""Parts of the HTTP clients: ``HTTPClient``, built on Tornado's client, and the urllib3 pools of ``http.requests``."""
