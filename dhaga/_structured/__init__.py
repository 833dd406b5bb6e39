"""Scopes and races: structured concurrency."""
