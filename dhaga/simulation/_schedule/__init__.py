"""Who runs next, and where a member is switched between lines."""
