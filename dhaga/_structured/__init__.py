"""Structured concurrency: scopes, races, shields, and blocks that must not park."""
