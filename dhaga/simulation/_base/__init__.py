"""Code that several packages share: errors, pauses, checks of settings, undoing, and the simulation that runs now."""
